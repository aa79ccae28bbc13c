//! A watch as frames of bounded length, so that a reader that reads nothing pins little memory, however large one revision is.

use crate::{
    edge::memory_quota::{ConnectionMemory, with_share},
    edge::problem::Problem,
    edge::stream::StreamFormat,
};
use bytes::Bytes;
use fairhold_types::{
    Code, Revision,
    limits::FRAME_BYTES_MAX,
    watch::{WatchLine, What},
};
use std::sync::Arc;

/// The maximum length of a line. A frame with less space than this is complete, and the next line begins another one.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Lines, each with the revision after which a reader may resume, if it is the last line of that revision.
pub(crate) type Lines = Box<dyn Iterator<Item = (WatchLine, Option<Revision>)> + Send>;

/// The unsent part of a watch.
pub(crate) struct Frames {
    form: StreamFormat,
    /// The memory for bytes that wait for their socket; none in the simulator.
    memory: Option<Arc<ConnectionMemory>>,
    left: Lines,
    /// The revision of the last sent line.
    last: Revision,
    ended: bool,
}

impl Frames {
    /// A watch that starts after this revision, without lines yet.
    pub(crate) fn new(form: StreamFormat, memory: Option<Arc<ConnectionMemory>>, start: Revision) -> Frames {
        Frames { form, memory, left: Box::new(std::iter::empty()), last: start, ended: false }
    }

    /// Sets the next lines. All previous lines must have been sent.
    pub(crate) fn add(&mut self, lines: Lines) {
        self.left = lines;
    }

    /// Whether the reader was cut off.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// The next frame, with its share of memory; `None` if it needs more lines. If a slow reader has used up its memory, the
    /// stream ends with a line that says so and names the last revision that was sent.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        let max = self.memory.as_ref().map_or(FRAME_BYTES_MAX, |memory| memory.frame_bytes());
        let (mut out, mut last) = (Vec::new(), self.last);
        while out.is_empty() || out.len() + LINE_BYTES_MAX <= max {
            let Some((line, id)) = self.left.next() else { break };
            last = line.revision;
            self.form.write(&line, id, &mut out);
        }
        if out.is_empty() {
            return None;
        }
        let share = self.memory.as_ref().map(|memory| memory.answer(out.len())).transpose();
        let Ok(share) = share else { return Some(self.cut_off()) };
        self.last = last;
        Some(match share.flatten() {
            Some(share) => with_share(out.into(), share),
            None => out.into(),
        })
    }

    fn cut_off(&mut self) -> Bytes {
        let detail = "this watch has too much unread data, and so have others: continue from its last line, or watch at another \
                      node";
        let (mut out, what) = (Vec::new(), What::Error(Box::new(Problem::new(Code::Overloaded, detail).into())));
        self.form.write(&WatchLine { revision: self.last, what }, None, &mut out);
        (self.left, self.ended) = (Box::new(std::iter::empty()), true);
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::quota::{Quota, Share};
    use fairhold_types::{
        Path,
        limits::{ANSWER_BYTES_FREE, PATH_BYTES_MAX},
    };
    use std::net::IpAddr;

    fn created(path: &str) -> What {
        What::NodeCreated { path: Path::parse(path).unwrap() }
    }

    /// This many lines of one revision.
    fn lines(revision: u64, paths: Vec<String>) -> Lines {
        let (revision, last) = (Revision(revision), paths.len() - 1);
        let line = move |(index, path): (usize, String)| {
            (WatchLine { revision, what: created(&path) }, (index == last).then_some(revision))
        };
        Box::new(paths.into_iter().enumerate().map(line))
    }

    fn text(frame: &Bytes) -> &str {
        std::str::from_utf8(frame).unwrap()
    }

    /// A connection's memory, and the share that others have taken.
    fn memory(others: usize) -> (Arc<ConnectionMemory>, Option<Share>) {
        let answers = Quota::new(FRAME_BYTES_MAX, FRAME_BYTES_MAX);
        let taken = Quota::take(&answers, IpAddr::from([10, 0, 0, 2]), others);
        (ConnectionMemory::new(&Quota::new(0, 0), &answers, IpAddr::from([10, 0, 0, 1])), taken)
    }

    #[test]
    fn one_revision_comes_in_frames_of_a_bounded_length_and_only_its_last_line_has_its_id() {
        let short = (0..30_000).map(|number| format!("/workers/{number}")).collect();
        let long = (0..1_000).map(|number| format!("/{number:04}{}", "é".repeat(PATH_BYTES_MAX / 2 - 3))).collect();
        for paths in [short, long] {
            let paths: Vec<String> = paths;
            let (mut frames, mut sent) = (Frames::new(StreamFormat::Events, Some(memory(0).0), Revision(6)), String::new());
            frames.add(lines(7, paths.clone()));
            while let Some(frame) = frames.next() {
                assert!(frame.len() <= FRAME_BYTES_MAX, "{} bytes", frame.len());
                assert!(sent.is_empty() || !sent.contains("id:"), "the line with the id is the last one of its revision");
                sent.push_str(text(&frame));
            }
            let events: Vec<&str> = sent.split_terminator("\n\n").collect();
            assert!(events.iter().zip(&paths).all(|(event, path)| event.contains(&format!("\"path\":\"{path}\"}}"))));
            assert_eq!((events.len(), sent.matches("id: 7\n").count()), (paths.len(), 1));
            assert!(events.last().unwrap().starts_with("id: 7\n"));
        }
    }

    #[test]
    fn without_memory_frames_are_short_and_a_reader_that_reads_none_is_cut_off_at_its_last_line() {
        let (memory, others) = memory(FRAME_BYTES_MAX);
        let mut frames = Frames::new(StreamFormat::Lines, Some(Arc::clone(&memory)), Revision(6));
        frames.add(lines(7, (0..30_000).map(|number| format!("/workers/{number}")).collect()));
        let frame = frames.next().unwrap();
        assert!(frame.len() <= ANSWER_BYTES_FREE, "{} bytes", frame.len());
        memory.add_unwritten(frame.len());
        memory.flushed();
        let mut unread = 0;
        while !frames.ended() && unread <= 2 * ANSWER_BYTES_FREE {
            let frame = frames.next().unwrap();
            memory.add_unwritten(frame.len());
            unread += frame.len();
            if frames.ended() {
                assert!(text(&frame).starts_with("{\"revision\":7,\"type\":\"error\",") && text(&frame).contains("overloaded"));
            }
        }
        assert!(frames.ended() && frames.next().is_none());
        drop(others);
    }

    #[test]
    fn a_reader_cut_off_before_a_revision_gets_the_previous_one() {
        let (memory, _others) = memory(FRAME_BYTES_MAX);
        memory.add_unwritten(ANSWER_BYTES_FREE);
        let mut frames = Frames::new(StreamFormat::Lines, Some(memory), Revision(6));
        frames.add(lines(7, vec!["/a".to_owned()]));
        assert!(text(&frames.next().unwrap()).starts_with("{\"revision\":6,\"type\":\"error\","));
    }
}
