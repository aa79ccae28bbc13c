//! Series with labels, and series that are read only at a scrape.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric, MetricEncoder},
    metrics::{MetricType, TypedMetric, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use std::fmt;

/// One metric for each value of a label. All values are known at registration, so counting needs no look-up.
#[derive(Debug)]
pub struct ByLabel<M> {
    label: &'static str,
    cells: Vec<(&'static str, M)>,
}

impl<M> ByLabel<M> {
    /// The label, and the metric for each of its values.
    pub fn new(label: &'static str, cells: impl IntoIterator<Item = (&'static str, M)>) -> ByLabel<M> {
        ByLabel { label, cells: cells.into_iter().collect() }
    }
}

impl<M: TypedMetric> TypedMetric for ByLabel<M> {
    const TYPE: MetricType = M::TYPE;
}

impl<M: EncodeMetric + TypedMetric> EncodeMetric for ByLabel<M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        self.cells.iter().try_for_each(|(value, metric)| metric.encode(encoder.encode_family(&[(self.label, *value)])?))
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }
}

/// One scrape: a collector writes its series into it.
pub struct Scrape<'a>(DescriptorEncoder<'a>);

impl Scrape<'_> {
    /// A gauge without labels.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        let gauge = ConstGauge::new(value);
        gauge.encode(self.0.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }

    /// A gauge with a value for each item; without items the series is left out.
    pub fn gauges<T: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (String, T)>,
    ) -> fmt::Result {
        self.gauges_of(name, help, values.into_iter().map(|(text, value)| ([(label, text)], value)))
    }

    /// A gauge with several labels and a value for each item; without items the series is left out.
    pub fn gauges_of<'l, T: EncodeGaugeValue, const LABELS: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([(&'l str, String); LABELS], T)>,
    ) -> fmt::Result {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        values.try_for_each(|(labels, value)| ConstGauge::new(value).encode(encoder.encode_family(&labels)?))
    }

    /// A counter that is kept elsewhere. `name` has no `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        ConstCounter::new(value).encode(self.0.encode_descriptor(name, help, None, MetricType::Counter)?)
    }

    /// The same with fractions.
    pub fn counter_of_seconds(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        ConstCounter::new(value).encode(self.0.encode_descriptor(name, help, None, MetricType::Counter)?)
    }

    /// Metrics of one kind with several labels; without metrics the series is left out.
    pub fn family<'m, M: EncodeMetric + TypedMetric + 'm, const LABELS: usize>(
        &mut self,
        name: &str,
        help: &str,
        metrics: impl IntoIterator<Item = ([(&'static str, &'m str); LABELS], &'m M)>,
    ) -> fmt::Result {
        let mut metrics = metrics.into_iter().peekable();
        if metrics.peek().is_none() {
            return Ok(());
        }
        let mut encoder = self.0.encode_descriptor(name, help, None, M::TYPE)?;
        metrics.try_for_each(|(labels, metric)| metric.encode(encoder.encode_family(&labels)?))
    }
}

impl fmt::Debug for Scrape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}

struct Collected<F>(F);

impl<F> fmt::Debug for Collected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collected")
    }
}

impl<F: Fn(&mut Scrape<'_>) -> fmt::Result + Send + Sync + 'static> Collector for Collected<F> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.0)(&mut Scrape(encoder))
    }
}

/// Calls `read` at every scrape. `read` must be quick, because it runs between requests.
pub fn collect(registry: &mut Registry, read: impl Fn(&mut Scrape<'_>) -> fmt::Result + Send + Sync + 'static) {
    registry.register_collector(Box::new(Collected(read)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counter, Format, registry, text};

    #[test]
    fn a_scrape_serves_counters_and_the_values_that_it_reads() {
        let refused = Counter::default();
        let mut registry = registry();
        let cells = [("full", refused.clone()), ("closed", Counter::default())];
        registry.sub_registry_with_prefix("http").register("refused", "Refused", ByLabel::new("reason", cells));
        collect(&mut registry, |scrape| {
            scrape.gauge("term", "Term", 7_u64)?;
            scrape.gauges("lag", "Lag", "peer", [("2".to_owned(), 3_u64)])?;
            scrape.gauges("nobody", "Nobody", "peer", Vec::<(String, u64)>::new())?;
            scrape.gauges_of("took", "Took", [([("peer", "2".to_owned()), ("quantile", "0.5".to_owned())], 0.25)])?;
            scrape.counter("wakeups", "Wake-ups", 5)
        });
        refused.inc();
        let served = text(&registry, Format::Plain).unwrap();
        for line in [
            "# TYPE fairhold_http_refused_total counter",
            "fairhold_http_refused_total{reason=\"full\"} 1",
            "fairhold_http_refused_total{reason=\"closed\"} 0",
            "fairhold_term 7",
            "fairhold_lag{peer=\"2\"} 3",
            "fairhold_took{peer=\"2\",quantile=\"0.5\"} 0.25",
            "fairhold_wakeups_total 5",
        ] {
            assert!(served.lines().any(|served| served == line), "{line} is not in\n{served}");
        }
        assert!(!served.contains("nobody"), "{served}");
    }
}
