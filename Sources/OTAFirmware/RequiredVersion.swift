/// The lowest version that may be running for a bundle to be taken: three numbers, compared as such. The running
/// version's pre-release and build parts are not looked at.
public struct RequiredVersion: Sendable, Hashable, CustomStringConvertible {
    /// What a text must be, for people.
    public static let rule = "three numbers such as 1.4.0, each below 2^32"

    public let major, minor, patch: UInt32

    public init(major: UInt32, minor: UInt32, patch: UInt32) {
        self.major = major
        self.minor = minor
        self.patch = patch
    }

    /// Nil unless `text` obeys the `rule`.
    public init?(_ text: some StringProtocol) {
        guard let version = SemanticVersion(text), version.text == "\(version.major).\(version.minor).\(version.patch)"
        else { return nil }
        self.init(major: version.major, minor: version.minor, patch: version.patch)
    }

    /// Reads three u32, little-endian; nil unless there are 12 bytes.
    init?(encoded bytes: ArraySlice<UInt8>) {
        var reader = ByteReader(bytes)
        guard bytes.count == 12, let major = try? reader.read(UInt32.self), let minor = try? reader.read(UInt32.self),
            let patch = try? reader.read(UInt32.self)
        else { return nil }
        self.init(major: major, minor: minor, patch: patch)
    }

    var encoded: [UInt8] {
        var writer = ByteWriter()
        for number in [major, minor, patch] { writer.write(number) }
        return writer.bytes
    }

    public func isSatisfied(by running: SemanticVersion) -> Bool {
        (running.major, running.minor, running.patch) >= (major, minor, patch)
    }

    public var description: String { "\(major).\(minor).\(patch)" }
}
