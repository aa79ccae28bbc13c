//! What a client shows when its token file changes.

use super::*;
use futures_util::future::{join_all, poll_immediate};
use std::fs;

/// How long a read may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// A file with a token, in a folder of its own.
struct Case {
    folder: PathBuf,
    file: PathBuf,
}

impl Case {
    fn new(name: &str) -> Case {
        let folder = std::env::temp_dir().join(format!("fairhold-client-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let case = Case { file: folder.join("token"), folder };
        case.write("first\n");
        case
    }

    /// Replaces the file in one step.
    fn write(&self, text: &str) {
        fs::write(self.folder.join("next"), text).unwrap();
        fs::rename(self.folder.join("next"), &self.file).unwrap();
    }

    fn load(&self) -> Result<AuthToken, Error> {
        AuthToken::load(&TokenSource::File(self.file.clone()), Handle::current())
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

fn text(header: Option<HeaderValue>) -> Option<String> {
    header.map(|header| header.to_str().unwrap().to_owned())
}

fn shown(text: &str) -> HeaderValue {
    HeaderValue::try_from(format!("Bearer {text}")).unwrap()
}

#[tokio::test]
async fn a_refused_token_is_replaced_by_that_of_the_file_and_only_if_that_is_another_one() {
    let case = Case::new("refused");
    let token = case.load().unwrap();
    let first = shown("first");
    let instead_of_first = async || token.instead_of_within(&first, SOON).await;
    assert_eq!(text(token.header()).as_deref(), Some("Bearer first"));
    assert_eq!(instead_of_first().await, None, "the file is as before");
    for unusable in ["", "\n\n", "two\u{7f}"] {
        case.write(unusable);
        assert_eq!(instead_of_first().await, None, "{unusable:?}");
    }
    let mut changes = token.changes();
    case.write("\n second \nthird\n");
    assert_eq!(text(instead_of_first().await).as_deref(), Some("Bearer second"));
    changes.next().await;
    assert_eq!(text(token.header()).as_deref(), Some("Bearer second"));
    // Another request was sent before that.
    assert_eq!(text(instead_of_first().await).as_deref(), Some("Bearer second"));
    fs::remove_file(&case.file).unwrap();
    assert_eq!(token.instead_of_within(&shown("second"), SOON).await, None);
    assert_eq!(text(token.header()).as_deref(), Some("Bearer second"));
}

#[tokio::test]
async fn requests_find_a_new_token_within_a_second() {
    let case = Case::new("replaced");
    let token = case.load().unwrap();
    let mut changes = token.changes();
    case.write("second");
    let long_ago = Instant::now().checked_sub(READ_EVERY).unwrap();
    token.0.as_ref().unwrap().file.as_ref().unwrap().state.lock().started_at = long_ago;
    assert!(token.header().is_some(), "it lets a thread read the file");
    changes.next().await;
    assert_eq!(text(token.header()).as_deref(), Some("Bearer second"));
}

#[tokio::test]
async fn requests_that_are_refused_at_the_same_time_read_the_file_once() {
    let case = Case::new("many");
    let token = case.load().unwrap();
    case.write("second");
    let refused = (0..200).map(|_| {
        let token = token.clone();
        tokio::spawn(async move { text(token.instead_of_within(&shown("first"), SOON).await) })
    });
    for replaced in join_all(refused).await {
        assert_eq!(replaced.unwrap().as_deref(), Some("Bearer second"));
    }
    let reads = *token.0.as_ref().unwrap().file.as_ref().unwrap().reads.borrow();
    assert_eq!(reads, 1);
}

#[tokio::test]
async fn requests_that_are_refused_during_a_read_need_one_more_read_of_an_unchanged_file() {
    let case = Case::new("unchanged");
    let token = case.load().unwrap();
    let source = token.0.as_ref().unwrap();
    let file = source.file.as_ref().unwrap();
    file.state.lock().is_running = true;
    let first = shown("first");
    let mut refused = Box::pin(join_all((0..20).map(|_| token.instead_of_within(&first, SOON))));
    assert!(poll_immediate(&mut refused).await.is_none(), "they wait for the read that is under way");
    source.read_again();
    assert!(refused.await.iter().all(Option::is_none));
    assert_eq!(*file.reads.borrow(), 2);
}

#[tokio::test]
async fn a_file_without_a_token_is_refused_and_no_text_shows_the_token() {
    let case = Case::new("unusable");
    let refused = |case: &Case| case.load().map(drop).unwrap_err().to_string();
    for (content, says) in [("", "is empty"), (" \n", "is empty"), ("a\u{7f}", "characters that a header cannot contain")] {
        case.write(content);
        let error = refused(&case);
        assert!(error.contains(says) && error.contains("unusable"), "{error}");
    }
    fs::remove_file(&case.file).unwrap();
    assert!(refused(&case).contains("cannot be read"));
    let fixed = TokenSource::Text("s3cret".to_owned());
    let token = AuthToken::load(&fixed, Handle::current()).unwrap();
    assert!(!format!("{fixed:?} {token:?} {:?}", token.header()).contains("s3cret"));
    assert_eq!(token.instead_of(&shown("s3cret")).await, None);
    assert!(AuthToken::default().header().is_none());
}
