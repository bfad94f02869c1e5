import OTAClient
import OTAFirmware
import OTALinks
import OTAUpdate

/// The identity and status of a device.
struct DeviceSummary: Encodable, Sendable {
    /// The address that the user gave.
    let given: String
    /// The address to use in the next command, such as `ble:AA:BB:CC:DD:EE:FF` if the user gave `ble:name=NAME`.
    let address: String
    let name: String?
    /// The security of the Bluetooth link; nil for other transports.
    let link: LinkSummary?
    // `product`, `hardware` and `securityCounter` are nil if the update protocol does not report them.
    let product: String?
    let hardware: Int?
    let securityCounter: UInt32?
    /// The serial number; nil if the device does not report it.
    let serial: String?
    /// The version that ran at the start of the session; nil if the session did not change the running image.
    let previousVersion: String?
    /// Nil if the device does not report which image runs.
    let runningVersion: String?
    /// The first 8 bytes of the SHA-256 of the running release's manifest, as hex digits; nil if the device does not report it.
    let manifestSha256Prefix: String?
    /// The IDs of the keys that the device trusts; nil if the device does not report them.
    let keys: [String]?
    /// True if the running image is confirmed, that is, not on trial. Nil if the device does not report it.
    let confirmed: Bool?
    let state: String
    /// The maximum time from the boot to the confirmation of an image on trial, in seconds; 0 if the device does not support a trial. Nil
    /// if the update protocol does not report this time.
    let trialSeconds: Int?
    /// The battery level in per cent; nil if the device is mains-powered or does not report the level.
    let battery: Int?
    /// The encodings of images that the device decodes; nil if it accepts only plain images.
    let encodings: [String]?
    /// The size of the largest base of a delta, in bytes; 0 if the device cannot use its running image as a base. Nil if `encodings` is
    /// nil.
    let largestBase: Int?
    /// The maximum length of a packet over SMP, in bytes; nil if it is not known.
    let packetLength: Int?

    init(_ outcome: UpdateResult) {
        let device = outcome.report.device
        given = outcome.given
        address = outcome.address
        name = outcome.name
        link = outcome.security.map { LinkSummary($0) }
        product = device.product
        hardware = device.hardware
        securityCounter = device.securityCounter
        serial = device.serial
        previousVersion = device.previousVersion
        runningVersion = device.runningVersion.isEmpty ? nil : device.runningVersion
        manifestSha256Prefix = device.manifestDigestPrefix.map { Hex.encode($0) }
        keys = device.keys.isEmpty ? nil : device.keys.map(\.description)
        confirmed = [.unknown, .loader].contains(device.state) ? nil : device.state != .trial
        state = device.state.rawValue
        trialSeconds = device.trialSeconds
        battery = device.battery
        encodings = device.encodings.isEmpty ? nil : device.encodings.map(\.rawValue)
        largestBase = device.largestBase
        packetLength = device.packetLength
    }

    /// The name and address of the device, as text for messages.
    var title: String { name.map { "\($0) (\(address))" } ?? address }

    /// The name, the address and the protocol of the device, as text for messages.
    func title(over updateProtocol: UpdateProtocol) -> String {
        name.map { "\($0) (\(address), \(updateProtocol.title))" } ?? "\(address) (\(updateProtocol.title))"
    }

    /// The rows of the summary for the user. Each row has a title and a value.
    var rows: [(String, String)] {
        var rows = [("Device", title)]
        if let product { rows.append(("Product", product + (hardware.map { ", hardware revision \($0)" } ?? ""))) }
        if let serial { rows.append(("Serial number", serial)) }
        rows.append(("Runs", running))
        if let manifestSha256Prefix { rows.append(("Release", "manifest SHA-256 \(manifestSha256Prefix)…")) }
        if let keys { rows.append(("Trusted keys", keys.joined(separator: ", "))) }
        if let link { rows.append(("Link", link.text)) }
        if let securityCounter { rows.append(("Security counter", "\(securityCounter)")) }
        if let packetLength { rows.append(("Packets", "\(packetLength) bytes at most")) }
        guard let trialSeconds else { return rows }
        rows.append(("Battery", battery.map { "\($0) %" } ?? "none: mains powered"))
        rows.append(("Trial", trialSeconds > 0 ? "\(trialSeconds) s" : "none: the bootloader cannot roll back"))
        if let encodings {
            let base =
                (largestBase ?? 0) > 0 ? "compressed, and as a delta from the running image" : "compressed"
            rows.append(("Encoded images", "\(encodings.joined(separator: ", ")): \(base)"))
        }
        return rows
    }

    /// The running version, after the version at the start of the session if it is another one. Nil if the running version is unknown.
    var versions: String? {
        runningVersion.map { running in previousVersion.map { "\($0) → \(running)" } ?? running }
    }

    /// The version of the running image, or "an unknown version", as text for messages.
    var version: String { runningVersion ?? "an unknown version" }

    private var running: String {
        if state == DeviceDescription.State.loader.rawValue { return "its firmware loader, which waits for an image" }
        guard let runningVersion else { return "not reported by the device" }
        return switch state {
        case DeviceDescription.State.unknown.rawValue: "\(runningVersion); not reported whether it is confirmed"
        case DeviceDescription.State.trial.rawValue:
            "\(runningVersion), on trial: the device rolls back unless confirmed "
                + (trialSeconds.map { "within \($0) s of boot" } ?? "before the next restart")
        case DeviceDescription.State.receiving.rawValue: "\(runningVersion); an update is in progress"
        default: "\(runningVersion), confirmed"
        }
    }
}

/// The security of the Bluetooth link over which a result was received.
struct LinkSummary: Encodable, Sendable {
    let encrypted: Bool
    /// Nil if another program made the bond: BlueZ does not report whether it is authenticated.
    let authenticated: Bool?

    init(_ security: LinkSecurity) {
        encrypted = security.isEncrypted
        authenticated = security.isAuthenticated
    }

    /// The text for the user.
    var text: String {
        switch (encrypted, authenticated) {
        case (false, _): "not encrypted"
        case (true, true?): "encrypted and authenticated"
        case (true, false?): "encrypted, but the device is not authenticated"
        case (true, nil): "encrypted; not known whether the bond is authenticated"
        }
    }
}
