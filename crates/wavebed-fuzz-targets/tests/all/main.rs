//! Each target passes on its committed corpus, and has a program for libFuzzer.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use wavebed_fuzz_targets::TARGETS;

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The inputs of a target. Each character of the file is one byte, U+0000 to U+00FF.
fn corpus(target: &str) -> Vec<String> {
    let file = fuzz_folder().join("corpus").join(target);
    let text =
        fs::read(file.with_extension("json")).unwrap_or_else(|error| panic!("{target}: {error}"));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{target}: {error}"))
}

#[test]
fn each_target_passes_on_its_corpus() {
    for (name, run) in TARGETS {
        let inputs = corpus(name);
        assert!(!inputs.is_empty(), "{name} has no inputs");
        for input in inputs {
            let bytes: Vec<u8> = input
                .chars()
                .map(|byte| u8::try_from(byte).expect("one byte"))
                .collect();
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&bytes))) {
                eprintln!("{name} fails on {input:?}");
                resume_unwind(panic);
            }
        }
    }
}

/// `cargo test` does not build the programs, so their text is compared.
#[test]
fn each_target_has_a_program_for_libfuzzer() {
    let folder = fuzz_folder().join("fuzz_targets");
    let files: BTreeSet<_> = fs::read_dir(&folder)
        .expect("the folder of programs")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    let expected = TARGETS.map(|(name, _)| folder.join(name).with_extension("rs"));
    assert_eq!(files, BTreeSet::from(expected));
    let manifest = fs::read_to_string(fuzz_folder().join("Cargo.toml")).expect("the manifest");
    for (name, _) in TARGETS {
        let text = fs::read_to_string(folder.join(name).with_extension("rs")).expect("a program");
        let program = format!(
            "#![no_main]\n\nlibfuzzer_sys::fuzz_target!(|data: &[u8]| wavebed_fuzz_targets::{name}::run(data));\n"
        );
        assert_eq!(text, program);
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}
