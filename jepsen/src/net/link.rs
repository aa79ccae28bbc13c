//! The faults of a link from one place to another.

/// The faults of one direction between two places. Several faults add up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// No packet passes.
    pub(crate) cut: bool,
    /// Segments with data are lost, all others pass: the connection stays open, requests arrive, answers never do.
    pub(crate) data_lost: bool,
    /// How long each packet takes.
    pub(crate) delay_us: u64,
    /// The most additional delay, random for each packet, so that packets overtake each other.
    pub(crate) jitter_us: u64,
    /// No packet overtakes another one, whatever the jitter: the delay of a route, and not a fault.
    pub(crate) in_order: bool,
    /// How many of a thousand packets are lost.
    pub(crate) loss_permille: u32,
    /// How many of a thousand packets arrive twice.
    pub(crate) twice_permille: u32,
}

impl Link {
    /// No packet passes.
    pub(crate) const CUT: Link =
        Link { cut: true, data_lost: false, delay_us: 0, jitter_us: 0, in_order: false, loss_permille: 0, twice_permille: 0 };

    /// Both faults at once.
    pub(crate) fn and(self, other: Link) -> Link {
        Link {
            cut: self.cut || other.cut,
            data_lost: self.data_lost || other.data_lost,
            delay_us: self.delay_us + other.delay_us,
            jitter_us: self.jitter_us + other.jitter_us,
            in_order: self.in_order || other.in_order,
            loss_permille: (self.loss_permille + other.loss_permille).min(1_000),
            twice_permille: (self.twice_permille + other.twice_permille).min(1_000),
        }
    }
}

/// The effect of one fault on the network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Overlay(pub(crate) Vec<(usize, usize, Link)>);

impl Overlay {
    /// The same from each of the first to each of the second, in one direction.
    pub(crate) fn one_way(from: &[usize], to: &[usize], link: Link) -> Overlay {
        let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to, link)));
        Overlay(pairs.filter(|(from, to, _)| from != to).collect())
    }

    /// The same in both directions.
    pub(crate) fn both_ways(a: &[usize], b: &[usize], link: Link) -> Overlay {
        let mut overlay = Overlay::one_way(a, b, link);
        let back = Overlay::one_way(b, a, link).0;
        overlay.0.extend(
            back.into_iter().filter(|(from, to, _)| !overlay.0.iter().any(|(f, t, _)| (f, t) == (from, to))).collect::<Vec<_>>(),
        );
        overlay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_in_both_directions_names_each_direction_once() {
        let Overlay(links) = Overlay::both_ways(&[1], &[2, 3], Link::CUT);
        let pairs: Vec<(usize, usize)> = links.iter().map(|(from, to, _)| (*from, *to)).collect();
        assert_eq!(pairs, [(1, 2), (1, 3), (2, 1), (3, 1)]);
        let Overlay(all) = Overlay::both_ways(&[1, 2, 3], &[1, 2, 3], Link::CUT);
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn faults_on_one_link_add_up() {
        let slow = Link { delay_us: 50, loss_permille: 800, ..Link::default() };
        let both = slow.and(slow).and(Link::CUT);
        assert_eq!((both.cut, both.delay_us, both.loss_permille), (true, 100, 1_000));
    }
}
