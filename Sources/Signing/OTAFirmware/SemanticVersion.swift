/// A SemVer 2.0.0 version (https://semver.org). As in the version field of a bundle, the text has 5 to 63 bytes, and the major, minor and
/// patch numbers are below 2^32.
///
/// Two versions are equal if their texts are equal byte for byte, including the build metadata. Use `takesPrecedence(over:)` to find
/// the newer version.
public struct SemanticVersion: Sendable, Hashable, CustomStringConvertible {
    /// A description of the text format, for messages to the user.
    public static let rule = "a SemVer 2.0.0 version such as 1.4.0 or 1.4.0-rc.1, 5 to 63 bytes, numbers below 2^32"

    /// The whole version, 5 to 63 bytes of ASCII.
    public let text: String
    public let major, minor, patch: UInt32
    /// The dot-separated pre-release identifiers after the hyphen. The array is empty if the version is not a pre-release.
    public let prerelease: [Substring]

    /// Returns nil if `text` does not follow the `rule`.
    public init?(_ text: some StringProtocol) {
        let text = String(text)
        guard (5...63).contains(text.utf8.count) else { return nil }
        let parts = text.split(separator: "+", maxSplits: 1, omittingEmptySubsequences: false)
        let halves = parts[0].split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        let numbers = halves[0].split(separator: ".", omittingEmptySubsequences: false).map(Self.number)
        guard numbers.count == 3, let major = numbers[0], let minor = numbers[1], let patch = numbers[2] else {
            return nil
        }
        let prerelease = halves.dropFirst().flatMap { $0.split(separator: ".", omittingEmptySubsequences: false) }
        let build = parts.dropFirst().flatMap { $0.split(separator: ".", omittingEmptySubsequences: false) }
        guard prerelease.allSatisfy({ Self.isIdentifier($0) && !Self.hasLeadingZero($0) }),
            build.allSatisfy(Self.isIdentifier)
        else { return nil }
        self.text = text
        self.major = major
        self.minor = minor
        self.patch = patch
        self.prerelease = prerelease
    }

    public var description: String { text }

    /// Returns whether this version has a higher precedence than `other` (SemVer 2.0.0, item 11).
    ///
    /// Build metadata is ignored. Therefore two different versions can have the same precedence.
    public func takesPrecedence(over other: SemanticVersion) -> Bool {
        let numbers = (major, minor, patch)
        let others = (other.major, other.minor, other.patch)
        if numbers != others { return numbers > others }
        if prerelease.isEmpty || other.prerelease.isEmpty { return prerelease.isEmpty && !other.prerelease.isEmpty }
        for (mine, theirs) in zip(prerelease, other.prerelease) where mine != theirs {
            return Self.identifier(mine, isHigherThan: theirs)
        }
        return prerelease.count > other.prerelease.count
    }

    /// Returns whether the pre-release identifier `left` has a higher precedence than `right`.
    ///
    /// Numeric identifiers are compared as numbers of any length. Identifiers with letters or hyphens are compared by their ASCII
    /// codes. A numeric identifier is lower than an identifier with letters or hyphens.
    private static func identifier(_ left: Substring, isHigherThan right: Substring) -> Bool {
        let numeric = (isNumeric(left), isNumeric(right))
        if numeric.0 != numeric.1 { return numeric.1 }
        // The identifiers have no leading zeros, so the longer number is higher.
        if numeric.0, left.utf8.count != right.utf8.count { return left.utf8.count > right.utf8.count }
        return right.utf8.lexicographicallyPrecedes(left.utf8)
    }

    private static func number(_ text: Substring) -> UInt32? {
        isNumeric(text) && !hasLeadingZero(text) ? UInt32(text) : nil
    }

    private static func isNumeric(_ text: Substring) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    private static func hasLeadingZero(_ text: Substring) -> Bool {
        isNumeric(text) && text.utf8.count > 1 && text.utf8.first == UInt8(ascii: "0")
    }

    private static func isIdentifier(_ text: Substring) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { $0.isASCIILetterOrDigit || $0 == UInt8(ascii: "-") }
    }
}

/// A condition of a bundle: the lowest version that a device must already run to accept the bundle.
///
/// The condition consists of a major, a minor and a patch number. The pre-release part and the build part of the running version have no
/// effect.
public struct RequiredVersion: Sendable, Hashable, CustomStringConvertible {
    /// A description of the text format, for messages to the user.
    public static let rule = "three numbers such as 1.4.0, each below 2^32"

    public let major, minor, patch: UInt32

    public init(major: UInt32, minor: UInt32, patch: UInt32) {
        self.major = major
        self.minor = minor
        self.patch = patch
    }

    /// Returns nil if `text` does not follow the `rule`.
    public init?(_ text: some StringProtocol) {
        guard let version = SemanticVersion(text), version.text == "\(version.major).\(version.minor).\(version.patch)"
        else { return nil }
        self.init(major: version.major, minor: version.minor, patch: version.patch)
    }

    /// Parses three little-endian u32: major, minor and patch. Returns nil if `bytes` does not have 12 bytes.
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

    /// Returns whether the running version is at least this version. The function compares only the major, minor and patch numbers.
    public func isSatisfied(by running: SemanticVersion) -> Bool {
        (running.major, running.minor, running.patch) >= (major, minor, patch)
    }

    public var description: String { "\(major).\(minor).\(patch)" }
}

/// A condition for a version, such as `<1.4.0`. Versions are compared by SemVer precedence. Build metadata has no effect.
public struct VersionCondition: Sendable, Hashable, CustomStringConvertible {
    public enum Comparison: String, Sendable, CaseIterable {
        case below = "<", atMost = "<=", equal = "=", atLeast = ">=", above = ">"
    }

    public static let rule = "one of < <= = >= > and a version, such as <1.4.0"
    public let comparison: Comparison
    public let version: SemanticVersion

    /// Returns nil if `text` does not follow the `rule`.
    public init?(_ text: some StringProtocol) {
        let sign = text.prefix { "<=>".contains($0) }
        guard let comparison = Comparison(rawValue: String(sign)),
            let version = SemanticVersion(text.dropFirst(sign.count))
        else { return nil }
        self.comparison = comparison
        self.version = version
    }

    public var description: String { comparison.rawValue + version.text }

    /// Returns whether only versions above another version meet the condition.
    public func isOnly(above other: SemanticVersion) -> Bool {
        switch comparison {
        case .above: !other.takesPrecedence(over: version)
        case .atLeast, .equal: version.takesPrecedence(over: other)
        case .below, .atMost: false
        }
    }

    /// Returns whether a version meets the condition.
    public func includes(_ other: SemanticVersion) -> Bool {
        let isAbove = other.takesPrecedence(over: version)
        let isBelow = version.takesPrecedence(over: other)
        return switch comparison {
        case .below: isBelow
        case .atMost: !isAbove
        case .equal: !isAbove && !isBelow
        case .atLeast: !isBelow
        case .above: isAbove
        }
    }
}
