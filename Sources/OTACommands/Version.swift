/// The version of this release. A test compares it with the first heading of CHANGELOG.md.
package enum Version {
    package static let number = "0.1.0"
    /// The output of `--version`.
    package static let line = "otaflash \(number)"
}
