/// What this release is called. A test compares it with the first heading of CHANGELOG.md.
package enum Version {
    package static let number = "0.1.0"
    /// What `--version` prints.
    package static let line = "otaflash \(number)"
}
