//! Output files named by a user: replaced atomically, or written directly.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use wavebed_os::output::{create_regular, write};

/// A folder of the test's own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wavebed-{name}-{}", std::process::id()));
        // Left by a test that was killed, in a process of the same number.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("folder");
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("folder");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("entry")
                    .file_name()
                    .into_string()
                    .expect("text")
            })
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_regular_file_is_replaced_and_keeps_its_mode() {
    let folder = Folder::new("replace");
    let file = folder.0.join("file");
    fs::write(&file, "old").expect("write");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("mode");
    let before = fs::metadata(&file).expect("file").ino();
    write(&file, b"new").expect("write");
    assert_eq!(fs::read(&file).expect("read"), b"new");
    let after = fs::metadata(&file).expect("file");
    assert_ne!(after.ino(), before, "it was overwritten");
    assert_eq!(after.mode() & 0o777, 0o640);
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn a_link_is_followed_and_stays_and_a_folder_is_refused() {
    let folder = Folder::new("link");
    let link = folder.0.join("link");
    symlink("real", &link).expect("link");
    write(&link, b"text").expect("write");
    assert!(fs::symlink_metadata(&link).expect("link").is_symlink());
    assert_eq!(fs::read(folder.0.join("real")).expect("read"), b"text");
    assert!(write(&folder.0, b"text").is_err());
    assert_eq!(folder.names(), ["link", "real"]);
}

#[test]
fn a_device_is_written_and_stays() {
    let folder = Folder::new("device");
    let link = folder.0.join("null");
    symlink("/dev/null", &link).expect("link");
    write(&link, b"text").expect("write");
    let device = fs::metadata(&link).expect("device").file_type();
    assert!(device.is_char_device());
}

#[test]
fn a_file_of_a_log_is_emptied_and_no_link_is_followed() {
    let folder = Folder::new("log");
    let (file, link) = (folder.0.join("file"), folder.0.join("link"));
    fs::write(&file, "old").expect("write");
    symlink("file", &link).expect("link");
    let refused = create_regular(&link).expect_err("a link");
    assert!(
        refused.to_string().contains("not a regular file"),
        "{refused}"
    );
    assert_eq!(fs::read(&file).expect("read"), b"old");
    drop(create_regular(&file).expect("a regular file"));
    assert_eq!(fs::read(&file).expect("read"), b"");
    drop(create_regular(&folder.0.join("new")).expect("a new file"));
    assert_eq!(folder.names(), ["file", "link", "new"]);
}
