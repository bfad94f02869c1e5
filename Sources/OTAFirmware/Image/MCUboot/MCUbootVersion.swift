extension MCUbootImage {
    public struct Version: Sendable, Hashable, CustomStringConvertible {
        /// What a text must be, for people.
        public static let rule =
            "MAJOR.MINOR.REVISION+BUILD such as 1.4.0 or 1.4.0+7, in decimal: up to 255, 255, 65535 and 4294967295; "
            + "parts may be left out from the end"

        public let major, minor: UInt8
        public let revision: UInt16
        public let build: UInt32

        init(major: UInt8, minor: UInt8, revision: UInt16, build: UInt32) {
            self.major = major
            self.minor = minor
            self.revision = revision
            self.build = build
        }

        /// What imgtool's `--version` takes (imgtool 2.5.0, `version.py`); nil for what it refuses.
        public init?(_ text: some StringProtocol) {
            let halves = text.split(separator: "+", omittingEmptySubsequences: false)
            let parts = halves[0].split(separator: ".", omittingEmptySubsequences: false)
            guard halves.count <= 2, parts.count <= 3, halves.count == 1 || parts.count == 3,
                let major = Self.number(parts[0], UInt8.self),
                let minor = Self.number(parts.count > 1 ? parts[1] : "0", UInt8.self),
                let revision = Self.number(parts.count > 2 ? parts[2] : "0", UInt16.self),
                let build = Self.number(halves.count > 1 ? halves[1] : "0", UInt32.self)
            else { return nil }
            self.init(major: major, minor: minor, revision: revision, build: build)
        }

        /// `1.2.3`, or `1.2.3+4` with a build number other than 0: a semantic version.
        public var description: String { "\(major).\(minor).\(revision)" + (build == 0 ? "" : "+\(build)") }

        /// Without sign and leading zeros.
        private static func number<Integer: FixedWidthInteger>(
            _ text: some StringProtocol, _ type: Integer.Type
        ) -> Integer? {
            guard let number = Integer(text), String(number) == text else { return nil }
            return number
        }
    }
}

extension MCUbootImage.Version {
    /// 8 bytes, little-endian.
    var bytes: [UInt8] {
        var writer = ByteWriter()
        writer.write(major)
        writer.write(minor)
        writer.write(revision)
        writer.write(build)
        return writer.bytes
    }
}
