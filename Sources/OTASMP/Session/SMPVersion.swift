import OTAFirmware

/// An MCUboot version, as a device writes it: `1.2.3`, or `1.2.3.4` with a build number.
struct SMPVersion: Comparable {
    private let numbers: [UInt32]

    /// Nil where it is anything else.
    init?(_ text: String) {
        let numbers = text.split(separator: ".", omittingEmptySubsequences: false).map { UInt32($0) }
        guard 3...4 ~= numbers.count, !numbers.contains(nil) else { return nil }
        self.numbers = numbers.compactMap { $0 } + (numbers.count == 3 ? [0] : [])
    }

    init(_ version: MCUbootImage.Version) {
        numbers = [UInt32(version.major), UInt32(version.minor), UInt32(version.revision), version.build]
    }

    /// The build number is not compared.
    func satisfies(_ required: RequiredVersion) -> Bool {
        !numbers.prefix(3).lexicographicallyPrecedes([required.major, required.minor, required.patch])
    }

    static func < (left: SMPVersion, right: SMPVersion) -> Bool {
        left.numbers.lexicographicallyPrecedes(right.numbers)
    }
}
