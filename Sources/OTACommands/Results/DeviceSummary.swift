import OTAFirmware
import OTAUpdate

/// What a device is, and what runs on it.
struct DeviceSummary: Encodable, Sendable {
    let address: String
    let name: String?
    // What its protocol has no word for is absent.
    let product: String?
    let hardware: Int?
    let securityCounter: UInt32?
    let previousVersion: String?
    let runningVersion: String
    /// What runs is there to stay.
    let confirmed: Bool
    let state: String
    /// Time from boot within which a trial must be confirmed; 0: the device has no trial.
    let trialSeconds: Int?
    /// Per cent; absent: it runs on mains.
    let battery: Int?

    init(_ outcome: DeviceOutcome) {
        let device = outcome.report.device
        address = outcome.address
        name = outcome.name
        product = device.product
        hardware = device.hardware
        securityCounter = device.securityCounter
        previousVersion = device.previousVersion
        runningVersion = device.runningVersion
        confirmed = device.state != .trial
        state = device.state.rawValue
        trialSeconds = device.trialSeconds
        battery = device.battery
    }

    /// For a sentence.
    var title: String { name.map { "\($0) (\(address))" } ?? address }

    var rows: [(String, String)] {
        var rows = [("Device", title)]
        if let product { rows.append(("Product", product + (hardware.map { ", hardware revision \($0)" } ?? ""))) }
        rows.append(("Runs", running))
        if let securityCounter { rows.append(("Security counter", "\(securityCounter)")) }
        guard let trialSeconds else { return rows }
        rows.append(("Battery", battery.map { "\($0) %" } ?? "none: it runs on mains"))
        rows.append(("Trial", trialSeconds > 0 ? "\(trialSeconds) s" : "none: the bootloader has no way back"))
        return rows
    }

    private var running: String {
        switch state {
        case DeviceDescription.State.trial.rawValue:
            "\(runningVersion), on trial: it goes back by itself unless confirmed "
                + (trialSeconds.map { "within \($0) s of its boot" } ?? "before its next restart")
        case DeviceDescription.State.receiving.rawValue: "\(runningVersion); an update is under way"
        default: "\(runningVersion), confirmed"
        }
    }
}
