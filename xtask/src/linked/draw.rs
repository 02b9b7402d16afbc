//! What a random program is made of: its features, drawn from its number.
//!
//! A feature is a scene, or a manner in which the program is compiled and linked.
//! Everything that is drawn within a feature comes from the seed, the program's number
//! and the feature's place in the list alone. So a program without some of its features
//! is the same program but for these, and what is wrong with it can be reduced.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::scenes::{Role, Scene};

/// How programs are compiled and linked.
#[derive(Debug)]
pub struct Manner {
    /// What it is called.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Of several with the same group, a program has one at most.
    group: &'static str,
    /// How many programs of a hundred have it, if they can.
    percent: u32,
    needs: Needs,
}

#[derive(Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// A program of which no scene needs shared libraries.
    Static,
    /// A library of the program's own.
    Library,
}

const fn manner(
    name: &'static str,
    group: &'static str,
    percent: u32,
    needs: Needs,
    what: &'static str,
) -> Manner {
    Manner { name, what, group, percent, needs }
}

/// All manners.
pub const MANNERS: [Manner; 24] = [
    manner("O0", "level", 30, Needs::Nothing, "units are compiled with -O0"),
    manner("O2", "level", 50, Needs::Nothing, "units are compiled with -O2 (else: -O1)"),
    manner("lld", "linker", 25, Needs::Nothing, "linked by lld"),
    manner("gold", "linker", 20, Needs::Nothing, "linked by gold"),
    manner("static", "kind", 35, Needs::Static, "-static"),
    manner("static-pie", "kind", 20, Needs::Static, "-static-pie"),
    manner("no-pie", "kind", 25, Needs::Nothing, "-no-pie"),
    manner("gc-sections", "", 20, Needs::Nothing, "--gc-sections, with -ffunction-sections"),
    manner("rdynamic", "", 20, Needs::Nothing, "-rdynamic: all functions are exported"),
    manner("bind-now", "", 12, Needs::Nothing, "-z now"),
    manner("no-inlining", "", 25, Needs::Nothing, "-fno-inline"),
    manner("main-in-native", "", 15, Needs::Nothing, "main is in a native object"),
    manner("merged-units", "", 20, Needs::Nothing, "units and native objects are merged by ld -r"),
    manner("units-in-archive", "", 25, Needs::Nothing, "units are members of an archive"),
    manner("natives-first", "", 30, Needs::Nothing, "native objects are linked before units"),
    manner("shuffled-link", "", 40, Needs::Nothing, "objects are linked in another order"),
    manner("rpath-origin", "", 30, Needs::Library, "libraries are looked for beside the program"),
    manner("soname", "", 40, Needs::Library, "libraries have a -soname"),
    manner(
        "version-script",
        "versions",
        30,
        Needs::Library,
        "libraries export what a script names",
    ),
    manner("named-versions", "versions", 40, Needs::Library, "the same, with a named version"),
    manner("Bsymbolic", "", 25, Needs::Library, "libraries are linked with -Bsymbolic"),
    manner(
        "function-sections",
        "",
        10,
        Needs::Nothing,
        "-ffunction-sections, and nothing is dropped",
    ),
    manner("as-needed", "", 10, Needs::Nothing, "--as-needed"),
    manner("library-paths", "", 20, Needs::Library, "libraries are linked by their paths"),
];

/// Programs from this number on have one scene alone, each scene once.
pub const ALONE: u64 = 1_000_000;

/// A feature of a program, and its place among those that were drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Its place.
    pub place: usize,
    /// The name of the scene or manner.
    pub name: &'static str,
}

/// A random program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    /// From what all programs are drawn.
    pub seed: u64,
    /// Its number.
    pub number: u64,
    /// What it is made of.
    pub features: Vec<Feature>,
}

impl Drawn {
    /// The program of a number.
    pub fn new(scenes: &[Scene], seed: u64, number: u64) -> Self {
        if let Some(scene) = number.checked_sub(ALONE).and_then(|it| scenes.get(it as usize)) {
            let features = vec![Feature { place: 0, name: scene.name }];
            return Self { seed, number, features };
        }
        let mut rng = Rng::with_seed(mixed(&[seed, number]));
        let chosen = choose_scenes(scenes, &mut rng);
        let is_dynamic = chosen.iter().any(|it| it.is_dynamic);
        let has_library = chosen.iter().any(|it| it.has_library);
        let mut names: Vec<&'static str> = chosen.iter().map(|it| it.name).collect();
        let mut groups = BTreeSet::new();
        for manner in &MANNERS {
            let can = match manner.needs {
                Needs::Nothing => true,
                Needs::Static => !is_dynamic,
                Needs::Library => has_library,
            };
            // Drawn in any case, so that what follows does not depend on it.
            let is_drawn = rng.u32(0..100) < manner.percent;
            let is_free = manner.group.is_empty() || !groups.contains(manner.group);
            // gold does not know what clang says to a linker for these.
            let is_known = !(manner.name == "static-pie" && names.contains(&"gold"));
            if can && is_drawn && is_free && is_known {
                groups.insert(manner.group);
                names.push(manner.name);
            }
        }
        let places = names.into_iter().enumerate();
        let features = places.map(|(place, name)| Feature { place, name }).collect();
        Self { seed, number, features }
    }

    /// Without one of its features.
    pub fn without(&self, at: usize) -> Self {
        let mut less = self.clone();
        less.features.remove(at);
        less
    }

    /// Whether it has a feature.
    pub fn has(&self, name: &str) -> bool {
        self.features.iter().any(|it| it.name == name)
    }

    /// Numbers for what is drawn within a feature.
    pub fn rng(&self, feature: &Feature) -> Rng {
        Rng::with_seed(mixed(&[self.seed, self.number, 1 + feature.place as u64]))
    }

    /// The names of its features.
    pub fn names(&self) -> Vec<String> {
        self.features.iter().map(|it| it.name.to_owned()).collect()
    }
}

fn choose_scenes<'a>(scenes: &'a [Scene], rng: &mut Rng) -> Vec<&'a Scene> {
    let of = |role: Role| scenes.iter().filter(move |it| it.role == role).collect::<Vec<_>>();
    let (ordinary, endings, crashes) = (of(Role::Ordinary), of(Role::Ending), of(Role::Crash));
    let mut chosen: Vec<&Scene> = Vec::new();
    for _ in 0..rng.usize(1..=4) {
        let scene = ordinary[rng.usize(0..ordinary.len())];
        let fits = |it: &&Scene| {
            it.name != scene.name && (it.alone != scene.alone || scene.alone.is_none())
        };
        if chosen.iter().all(fits) {
            chosen.push(scene);
        }
    }
    if rng.u32(0..100) < 35 {
        chosen.push(endings[rng.usize(0..endings.len())]);
    }
    if rng.u32(0..100) < 70 {
        chosen.push(crashes[rng.usize(0..crashes.len())]);
    }
    chosen
}

/// Numbers that have nothing in common for numbers that are close.
fn mixed(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0x9e37_79b9_7f4a_7c15, |sum, number| {
        let mut x = sum ^ number.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 30)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::super::scenes;
    use super::*;

    #[test]
    fn numbers_repeat_and_every_feature_is_drawn() {
        let scenes = scenes::all();
        let mut seen = BTreeSet::new();
        for number in 0..2000 {
            let drawn = Drawn::new(&scenes, 1, number);
            assert_eq!(drawn, Drawn::new(&scenes, 1, number));
            assert!(!(drawn.has("O0") && drawn.has("O2")));
            let of = |name: &str| scenes.iter().find(|it| it.name == name);
            let is_dynamic =
                drawn.features.iter().any(|it| of(it.name).is_some_and(|it| it.is_dynamic));
            assert!(!(is_dynamic && (drawn.has("static") || drawn.has("static-pie"))));
            seen.extend(drawn.features.iter().map(|it| it.name));
        }
        let names = scenes.iter().map(|it| it.name).chain(MANNERS.iter().map(|it| it.name));
        let missing: Vec<&str> = names.filter(|it| !seen.contains(it)).collect();
        assert!(missing.is_empty(), "never drawn: {missing:?}");
    }

    #[test]
    fn each_scene_has_a_program_of_its_own() {
        let scenes = scenes::all();
        for (at, scene) in scenes.iter().enumerate() {
            assert_eq!(Drawn::new(&scenes, 1, ALONE + at as u64).names(), [scene.name]);
        }
    }

    #[test]
    fn the_rest_of_a_program_stays_as_it_was() {
        let drawn = Drawn::new(&scenes::all(), 1, 3);
        let less = drawn.without(0);
        assert_eq!(less.features[0], drawn.features[1]);
        let number = |of: &Drawn, at: usize| of.rng(&of.features[at]).u64(..);
        assert_eq!(number(&less, 0), number(&drawn, 1));
        assert_ne!(number(&drawn, 0), number(&drawn, 1));
    }
}
