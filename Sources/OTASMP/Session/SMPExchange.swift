/// A request that is not yet answered. One at a time, but for questions that the device has buffers for, and chunks.
struct SMPExchange {
    /// A device that is busy is asked again so often, and for so long.
    static let busyInterval = Duration.seconds(2)
    static let busyLimit = Duration.seconds(90)

    let request: SMPRequest
    /// The same for each attempt: a late answer to an earlier one is an answer.
    let sequence: UInt8
    /// When it was sent first.
    let since: Duration
    /// When the answer has to be there.
    let due: Duration
    /// Times it was sent.
    let attempt: Int
    /// When the device may no longer say that it is busy.
    let busyUntil: Duration
}

extension SMPRequest {
    private static let questionAttempts = 4
    private static let changeAttempts = 3

    /// It changes nothing on the device, which can answer at once.
    var isQuestion: Bool {
        switch self {
        case .echo, .parameters, .bootloader, .bootloaderMode, .system, .slots, .imageState: true
        // A mark for no image: every device refuses it.
        case .setState(digest: nil, confirm: false): true
        case .setState, .reset, .erase, .upload: false
        }
    }

    /// How long the answer to an attempt may take; the first attempt is number 1. A question is repeated after 1 s, 2 s and
    /// 4 s, and has 15 s in all: a device drops silently what it has no buffer for. Marking and erasing change the flash.
    func timeLimit(attempt: Int) -> Duration {
        if isQuestion { return .seconds(1) * (1 << (min(attempt, Self.questionAttempts) - 1)) }
        return switch self {
        case .reset: .seconds(5)
        case .erase, .upload: .seconds(60)
        default: .seconds(15)
        }
    }

    /// How often it is sent at most where no answer comes. A restart only once: what the device is like afterwards shows it.
    var attempts: Int { self == .reset ? 1 : isQuestion ? Self.questionAttempts : Self.changeAttempts }
}
