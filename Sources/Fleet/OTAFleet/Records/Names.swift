public import OTAFirmware

/// A name in a record of a fleet: 1 to 64 characters of A–Z, a–z, 0–9, `_` and `-`. Every store accepts such a name as a key.
public protocol FleetName: Sendable, Hashable, Comparable, CustomStringConvertible {
    var text: String { get }
    /// Returns nil if `text` is not a valid name.
    init?(_ text: some StringProtocol)
}

extension FleetName {
    public var description: String { text }
    public static func < (left: Self, right: Self) -> Bool { left.text < right.text }

    static func isName(_ text: some StringProtocol) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }
}

/// The identifier of a device, such as `ble-AABBCCDDEEFF`. Use the identity address of a Bluetooth device. A private random address
/// changes, and would give the device another identifier.
public struct DeviceID: FleetName {
    public let text: String
    public init?(_ text: some StringProtocol) {
        guard Self.isName(text) else { return nil }
        self.text = String(text)
    }

    public var isBluetooth: Bool { text.hasPrefix("ble-") }
}

/// The name of a gateway, such as `berlin-7`. It is unique in the fleet.
public struct GatewayName: FleetName {
    public let text: String
    public init?(_ text: some StringProtocol) {
        guard Self.isName(text) else { return nil }
        self.text = String(text)
    }
}

/// The name of a rollout. It starts with a letter or digit, because the store uses names with `_` at the start for other records.
public struct RolloutName: FleetName {
    public let text: String
    public init?(_ text: some StringProtocol) {
        guard Self.isName(text), !text.hasPrefix("_"), !text.hasPrefix("-") else { return nil }
        self.text = String(text)
    }
}

/// The label of a group of devices, such as `berlin`.
public struct GroupName: FleetName {
    public let text: String
    public init?(_ text: some StringProtocol) {
        guard Self.isName(text) else { return nil }
        self.text = String(text)
    }
}

/// The identifier of a release: the first 8 bytes of the SHA-256 of its manifest, as 16 lower-case hex digits.
public struct ReleaseID: FleetName {
    public let text: String

    public init?(_ text: some StringProtocol) {
        guard text.utf8.count == 16, let bytes = Hex.decode(text), text == Hex.encode(bytes) else { return nil }
        self.text = String(text)
    }

    public init(manifest: SHA256Digest) { text = Hex.encode(manifest.prefix) }
}

/// The identifier of one run of the process of a gateway or of a controller: 4 random bytes, as 8 lower-case hex digits. After a restart,
/// the process has a new identifier.
public struct GatewayInstance: FleetName {
    public let text: String

    public init?(_ text: some StringProtocol) {
        guard text.utf8.count == 8, let bytes = Hex.decode(text), text == Hex.encode(bytes) else { return nil }
        self.text = String(text)
    }

    public init(_ number: UInt32) {
        text = Hex.encode((0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) })
    }
}

/// A short code in a record, such as `link-lost`: 1 to 64 characters of a–z, 0–9 and `-`. The codes of failures are those of
/// docs/errors.md.
public struct Reason: FleetName {
    public let text: String

    public init?(_ text: some StringProtocol) {
        guard Self.isName(text), !text.utf8.contains(where: { (65...90).contains($0) || $0 == UInt8(ascii: "_") })
        else {
            return nil
        }
        self.text = String(text)
    }

    private init(code: String) { text = code }

    public static let rolledBack = Reason(code: "rolled-back")
    public static let didNotReturn = Reason(code: "did-not-return")
    public static let linkLost = Reason(code: "link-lost")
    public static let leaseLost = Reason(code: "lease-lost")
    /// The operator aborted the rollout.
    public static let aborted = Reason(code: "rollout-aborted")
    /// The rollout was paused or halted, or has expired, before the push started.
    public static let notRunning = Reason(code: "rollout-not-running")
    /// The gateway did not see the whole trial, so the end of the trial does not show that the image is bad.
    public static let trialUnattended = Reason(code: "trial-unattended")
    /// A push that may only confirm the image on trial found another image (``Assignment/onlyConfirms``).
    public static let notInTrial = Reason(code: "not-in-trial")
    /// The device does not answer.
    public static let noAnswer = Reason(code: "no-answer")
    /// The gateway that had the lease does not write any more.
    public static let holderGone = Reason(code: "holder-gone")
    /// The gateway stops.
    public static let stopped = Reason(code: "gateway-stopped")

    /// True if a gateway, the store or an operator ended the attempt, and not the device or the link to the device. The end of an
    /// unattended trial counts as an attempt, because the image can be bad.
    public var isInterruption: Bool {
        [.leaseLost, .holderGone, .stopped, .aborted, .notRunning].contains(self)
    }

    /// How the devices with this reason count for the halt of a rollout.
    public enum Blame: Sendable, Hashable {
        /// Radio problems and refusals do not count.
        case neither
        /// The device did not accept the image correctly. This is a fault of the device, until ``DeviceTotals/severalDevices`` enrolled
        /// devices of the rollout have the same reason. Then the image can be the cause.
        case device
        /// The image can be the cause. Each device counts.
        case image
    }

    public var blame: Blame {
        switch text {
        case "rolled-back", "did-not-return": .image
        case "protocol-violation", "digest-mismatch", "flash-failed": .device
        default: .neither
        }
    }
}
