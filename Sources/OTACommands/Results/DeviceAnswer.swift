import OTAClient
import OTAUpdate

/// The result of `confirm`, `discard` and `identify`.
struct DeviceAnswer: Answer {
    let device: DeviceSummary
    let updateProtocol: UpdateProtocol
    let lines: [TerminalLine]

    private enum CodingKeys: String, CodingKey {
        case device
        case updateProtocol = "protocol"
    }

    /// Creates the result.
    ///
    /// - Parameter text: returns the sentence that describes the device.
    init(_ outcome: UpdateResult, text: (DeviceSummary) -> String) {
        device = DeviceSummary(outcome)
        updateProtocol = outcome.report.updateProtocol
        lines = [TerminalLine(text(device))]
    }
}
