import ArgumentParser
import OTAClient
import OTAFirmware
import OTAUpdate

/// The command `confirm`, which makes the image on trial permanent.
struct Confirm: DeviceCommand {
    static let name = "confirm"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Confirm the image on trial: make it permanent.",
        discussion: """
            Example: otaflash confirm --device ble:AA:BB:CC:DD:EE:FF
                     otaflash confirm --device sim:

            A new image runs on trial after 'otaflash push --no-confirm', or after a push that was interrupted before its \
            end. A device with the GATT OTA profile rolls back to the old image at the end of the trial time. A device with \
            SMP rolls back at its next restart. confirm prevents the rollback. If no image is on trial, confirm fails (exit 77).
            """)

    @OptionGroup var target: DeviceOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, target) }

    func answer(_ console: Console) async throws -> DeviceAnswer {
        let outcome = try await console.perform(.confirm, on: target)
        return DeviceAnswer(outcome) { "\($0) runs \($1.version), confirmed." }
    }
}

/// The command `discard`, which discards a partial upload or rolls back the image on trial.
struct Discard: DeviceCommand {
    static let name = "discard"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Discard a partial upload, or roll back the image on trial.",
        discussion: """
            Example: otaflash discard --device ble:AA:BB:CC:DD:EE:FF
                     otaflash discard --device sim:

            If an image is on trial, the device restarts and returns to the old image.

            If no image is on trial, the result depends on the protocol. A device with the GATT OTA profile discards a partial \
            upload. A device with SMP erases the slot that does not contain the running image. If that slot contains a complete \
            image, discard fails without --erase (exit 77). If that image is marked for the next boot, SMP cannot discard it (exit 77).
            """)

    static let eraseArgument = "--erase"

    @OptionGroup var target: DeviceOptions

    @Flag(help: "Over SMP, also erase a complete image that is not marked for boot, such as the previous image.")
    var erase = false

    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, target) }

    func answer(_ console: Console) async throws -> DeviceAnswer {
        let outcome = try await console.perform(.discard(erasesImage: erase), on: target)
        return DeviceAnswer(outcome) { title, device in
            let what =
                device.previousVersion.map { "rolled back from \($0)" } ?? outcome.report.erased.map {
                    Self.text(of: $0)
                }
                ?? outcome.report.discarded.map { "discarded a partial upload of \(Figures.bytes($0.offset))" }
                ?? "had nothing to discard"
            return "\(title) \(what) and runs \(device.version), confirmed."
        }
    }

    /// Returns the text for the user about a slot that an SMP device erased. The text is a part of a sentence.
    private static func text(of erased: ErasedSlot) -> String {
        guard let held = erased.held else {
            return erased.wasEmpty
                ? "had an empty slot \(erased.slot), with nothing to erase,"
                : "erased slot \(erased.slot), which held no complete image,"
        }
        let digest = held.digest.map { ", \(ImageDigest.text($0))" } ?? ""
        return "erased slot \(erased.slot), which held version \(held.version)\(digest),"

    }
}

/// The command `restart`, which restarts a device with SMP.
struct Restart: DeviceCommand {
    static let name = "restart"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Restart a device with SMP.",
        discussion: """
            Example: otaflash restart --device serial:/dev/ttyACM0

            Use this command after 'otaflash push --upload-only' to a device that cannot mark an image for boot: in the serial \
            recovery of MCUboot, or if MCUboot loads images to RAM. It ends when the device has accepted the request.

            At a restart, a device boots the image that is marked for boot, and rolls back an image on trial.

            Only devices with SMP support this command. For a device with the GATT OTA profile, restart fails (exit 76).
            """)

    @OptionGroup var target: DeviceOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, target) }

    func answer(_ console: Console) async throws -> DeviceAnswer {
        let outcome = try await console.perform(.restart, on: target)
        return DeviceAnswer(outcome) { title, _ in "\(title) has accepted the request and restarts." }
    }
}

/// The command `identify`, which makes a device blink.
struct Identify: DeviceCommand {
    static let name = "identify"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Make a device blink, so that you can recognize it.",
        discussion: """
            Example: otaflash identify --device ble:AA:BB:CC:DD:EE:FF --seconds 30

            Only devices with the GATT OTA profile support this command. For a device with SMP, identify fails (exit 76).
            """)

    @OptionGroup var target: DeviceOptions

    @Option(
        help: "The blink time, 0 to 255 seconds; 0 stops the blinking; default: 10.",
        transform: WholeNumber.in(0...255))
    var seconds: UInt8 = 10

    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, target) }

    func answer(_ console: Console) async throws -> DeviceAnswer {
        let outcome = try await console.perform(.identify(seconds: seconds), on: target)
        let what = seconds == 0 ? "stopped blinking" : "blinks for \(seconds) s"
        return DeviceAnswer(outcome) { title, _ in "\(title) \(what)." }
    }
}

/// The result of the command `confirm`, `discard`, `restart` or `identify`.
struct DeviceAnswer: CommandAnswer {
    /// A slot that was erased. The members have the same names as the members of a slot in the result of `status`.
    struct Erased: Encodable, Sendable {
        let image, slot: Int
        /// The version of the complete image that the slot had; nil if the slot had no complete image.
        let version: String?
        /// The digest of the complete image that the slot had, from the image's TLVs. Nil if the slot had no complete image, or if the
        /// device does not report the digest.
        let sha256: String?
        /// True if the device reported that the slot was already empty.
        let empty: Bool

        init(_ erased: ErasedSlot) {
            image = erased.image
            slot = erased.slot
            version = erased.held?.version
            sha256 = erased.held?.digest.map { Hex.encode($0) }
            empty = erased.wasEmpty
        }
    }
    let device: DeviceSummary
    let updateProtocol: UpdateProtocol
    /// The slot that `discard` erased on an SMP device; nil if no slot was erased.
    let erased: Erased?
    /// The partial upload that `discard` removed from a device with the GATT OTA profile; nil if there was no partial upload.
    let discarded: StatusAnswer.Transfer?
    let lines: [TerminalLine]
    var describesDevice: Bool { true }

    private enum CodingKeys: String, CodingKey {
        case device, erased, discarded
        case updateProtocol = "protocol"
    }

    /// Creates the result of a command.
    ///
    /// - Parameter text: returns the sentence about the device for the user. Its first parameter is the title of the device.
    init(_ outcome: UpdateResult, text: (String, DeviceSummary) -> String) {
        device = DeviceSummary(outcome)
        updateProtocol = outcome.report.updateProtocol
        erased = outcome.report.erased.map { Erased($0) }
        discarded = outcome.report.discarded.map { StatusAnswer.Transfer($0) }
        lines = [TerminalLine(text(device.title(over: updateProtocol), device))]
    }
}
