/// What is asked of a device: of SMP's group 0 (OS) and of group 1 (image), what an update needs.
package enum SMPRequest: Sendable, Equatable {
    /// The device says the text back.
    case echo(String)
    /// How long its buffers are, and how many there are.
    case parameters
    case reset
    case bootloader
    /// How its bootloader changes images.
    case bootloaderMode
    /// What it is, by the letters of `format`, as `uname` has them.
    case system(format: String)
    case imageState
    /// Marks the image with this digest: to be tried at the next start or, with `confirm`, for good. Without a digest the
    /// running one is meant.
    case setState(digest: [UInt8]?, confirm: Bool)
    case upload(SMPChunk)
    /// Nil: the slot that does not run.
    case erase(slot: Int?)
    case slots

    package static let systemGroup: UInt16 = 0
    package static let imageGroup: UInt16 = 1

    package var operation: SMPFrame.Operation {
        switch self {
        case .parameters, .bootloader, .bootloaderMode, .system, .imageState, .slots: .read
        case .echo, .reset, .setState, .upload, .erase: .write
        }
    }

    package var group: UInt16 {
        switch self {
        case .echo, .parameters, .reset, .bootloader, .bootloaderMode, .system: Self.systemGroup
        case .imageState, .setState, .upload, .erase, .slots: Self.imageGroup
        }
    }

    package var command: UInt8 {
        switch self {
        case .echo, .imageState, .setState: 0
        case .upload: 1
        case .reset, .erase: 5
        case .parameters, .slots: 6
        case .system: 7
        case .bootloader, .bootloaderMode: 8
        }
    }

    /// For people.
    package var name: String {
        switch self {
        case .echo: "echo"
        case .parameters: "the question for its buffers"
        case .reset: "reset"
        case .bootloader, .bootloaderMode: "the question for its bootloader"
        case .system: "the question what it is"
        case .imageState: "the question for its images"
        case .setState(_, confirm: false): "the mark for test"
        case .setState(nil, confirm: true): "confirm"
        case .setState(_, confirm: true): "the mark for good"
        case .upload: "upload"
        case .erase: "erase"
        case .slots: "the question for its slots"
        }
    }

    package var fields: [String: CBORValue] {
        switch self {
        case .echo(let text): ["d": .text(text)]
        case .system(let format): ["format": .text(format)]
        case .bootloaderMode: ["query": .text("mode")]
        case .setState(let digest, let confirm):
            ["confirm": CBORValue.bool(confirm)].merging(digest.map { ["hash": .bytes($0)] } ?? [:]) { $1 }
        case .upload(let chunk): chunk.fields
        case .erase(let slot): slot.map { ["slot": CBORValue($0)] } ?? [:]
        case .parameters, .reset, .bootloader, .imageState, .slots: [:]
        }
    }

    package func frame(sequence: UInt8, version: SMPFrame.Version) -> SMPFrame {
        SMPFrame(
            version: version, operation: operation, group: group, sequence: sequence, command: command,
            body: CBOREncoder.encode(.map(fields)))
    }

    /// Whether a frame is the answer to it, sent with this sequence number. A late one is not. Which of the two kinds of
    /// answers it says that it is, servers and clients do not agree on.
    package func isAnswered(by frame: SMPFrame, sequence: UInt8) -> Bool {
        frame.sequence == sequence && frame.group == group && frame.command == command
            && [.readAnswer, .writeAnswer].contains(frame.operation)
    }
}
