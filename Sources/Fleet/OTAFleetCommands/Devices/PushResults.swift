public import OTAClient
internal import OTAEngine
public import OTAFleet
package import OTAUpdate

extension PushEnd {
    /// Converts the outcome of a push to its end. A device that does not report its version fails, because nothing shows that it is updated.
    package init(_ outcome: UpdateReport.Outcome) {
        switch outcome {
        case .confirmed, .alreadyRunning: self = .updated
        case .returned: self = .failed(Self.reason("version-unknown"))
        case .onTrial, .done, .wouldUpdate: self = .retry(Self.reason("not-confirmed"))
        }
    }

    /// Converts an error to the end of a push. The end shows whether another attempt can succeed, and whether the image may be the cause.
    package init(_ error: UpdateError) {
        let reason = Self.reason(error.code.rawValue)
        switch error.code.kind {
        case .imageLost, .faulty: self = .failed(reason)
        case .unsupported, .refused: self = .refused(reason)
        case .noConnection, .unreachable, .postponed, .interrupted, .staleTable, .wrongState: self = .retry(reason)
        }
    }

    /// Returns the error code as a reason. All error codes of otaflash are valid reasons. For a text that is not a valid reason, this
    /// method returns `linkLost`.
    static func reason(_ code: String) -> Reason { Reason(code) ?? .linkLost }
}

extension DeviceID {
    /// Creates the ID of the device at an address, such as `ble-AABBCCDDEEFF`, `udp-192-0-2-7-1337`, `serial--dev-ttyACM0` or `sim-lamp`.
    /// The character `-` replaces each character that an ID cannot have.
    ///
    /// - Throws: `AddressError` if the address does not name one device, or if the ID would have more than 64 characters.
    public init(of address: DeviceAddress) throws {
        var text = address.canonical
        if address.isBluetooth { text = "ble:" + text.dropFirst(4).filter { $0 != ":" } }
        let characters = text.map { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") ? $0 : "-" }
        // An address such as `ble:name=NAME` is refused, because another device can have the same name later.
        guard !address.isBluetooth || text.dropFirst(4).allSatisfy(\.isHexDigit) && text.count == 16,
            let id = DeviceID(String(characters))
        else {
            throw AddressError(
                "'\(address.text)' does not identify one device of a fleet",
                hint: "give the address of one device, such as ble:AA:BB:CC:DD:EE:FF")
        }
        self = id
    }
}

extension DeviceAddress {
    /// Creates the address of a Bluetooth device from its ID, such as `ble-AABBCCDDEEFF`.
    ///
    /// - Throws: `AddressError` if the ID is not the ID of a Bluetooth device.
    init(bluetooth device: DeviceID) throws {
        let digits = Array(device.text.dropFirst("ble-".count))
        // The check excludes 'ble:' and 'ble:name=NAME', which can be the addresses of other devices.
        guard device.text.hasPrefix("ble-"), digits.count == 12, digits.allSatisfy(\.isHexDigit) else {
            throw AddressError(
                "'\(device)' is not the ID of a Bluetooth device", hint: "use an ID such as ble-AABBCCDDEEFF")
        }
        let pairs = stride(from: 0, to: 12, by: 2).map { String(digits[$0...$0 + 1]) }
        try self.init("ble:" + pairs.joined(separator: ":"))
    }
}
