//! Metrics of the process, read from the kernel: memory, open files, processor time.

use super::open_files;
use fairhold_metrics::{Registry, Scrape, collect};
use std::{
    fmt, fs,
    time::{SystemTime, UNIX_EPOCH},
};

/// Registers the metrics of the process and of its build.
pub(super) fn register(registry: &mut Registry) {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    collect(registry, move |scrape| {
        let build = [(env!("CARGO_PKG_VERSION").to_owned(), 1_u64)];
        scrape.gauges("build_info", "Always 1; the label has the version", "version", build)?;
        scrape.gauge("process_start_time_seconds", "When the process started, in seconds since 1970", started)?;
        ProcessStats::take().map_or(Ok(()), |reading| reading.write(scrape))
    });
}

/// The figures of Linux for this process. Other systems lack the files, and the series are missing there.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ProcessStats {
    resident_bytes: u64,
    open_files: u64,
    max_files: Option<u64>,
    cpu_seconds: f64,
    threads: u64,
}

impl ProcessStats {
    fn take() -> Option<ProcessStats> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let limits = fs::read_to_string("/proc/self/limits").ok()?;
        let open_files = open_files::count()?;
        let page = rustix::param::page_size() as u64;
        let ticks = rustix::param::clock_ticks_per_second();
        ProcessStats::parse(&stat, &limits, open_files, page, ticks)
    }

    fn parse(stat: &str, limits: &str, open_files: u64, page_bytes: u64, ticks: u64) -> Option<ProcessStats> {
        // The program's name is in parentheses and may contain parentheses and spaces; the third field follows it.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let busy = u32::try_from(field(14)? + field(15)?).ok()?;
        let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        Some(ProcessStats {
            resident_bytes: field(24)? * page_bytes,
            open_files,
            max_files: files.split_whitespace().next().and_then(|max| max.parse().ok()),
            cpu_seconds: f64::from(busy) / f64::from(u32::try_from(ticks).ok()?),
            threads: field(20)?,
        })
    }

    fn write(self, scrape: &mut Scrape<'_>) -> fmt::Result {
        scrape.gauge("process_resident_memory_bytes", "Resident memory of the process", self.resident_bytes)?;
        scrape.gauge("process_open_fds", "Open files and sockets", self.open_files)?;
        if let Some(max) = self.max_files {
            scrape.gauge("process_max_fds", "Limit on open files and sockets", max)?;
        }
        scrape.gauge("process_threads", "Threads", self.threads)?;
        scrape.counter_of_seconds("process_cpu_seconds", "Processor time used", self.cpu_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_kernel_are_parsed() {
        let mut fields = vec!["0".to_owned(); 50];
        for (number, value) in [(14, "250"), (15, "150"), (20, "9"), (24, "1000")] {
            fields[number - 3] = value.to_owned();
        }
        let stat = format!("42 (fair) hold) {}", fields.join(" "));
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096                 files\n";
        let reading = ProcessStats::parse(&stat, limits, 17, 4096, 100).unwrap();
        let expected =
            ProcessStats { resident_bytes: 4_096_000, open_files: 17, max_files: Some(1024), cpu_seconds: 4.0, threads: 9 };
        assert_eq!(reading, expected);
        assert_eq!(ProcessStats::parse("42 (fairhold", limits, 17, 4096, 100), None);
    }
}
