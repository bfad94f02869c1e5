/// A request that is not yet answered. One at a time, but for questions that the device has buffers for, and chunks.
struct SMPExchange {
    static let attempts = 3
    /// A device that is busy is asked again so often, and for so long.
    static let busyInterval = Duration.seconds(2)
    static let busyLimit = Duration.seconds(90)

    let request: SMPRequest
    let sequence: UInt8
    /// When the answer has to be there.
    let due: Duration
    /// Times it was sent.
    let attempt: Int
    /// When the device may no longer say that it is busy.
    let busyUntil: Duration
}

extension SMPRequest {
    /// How long the answer may take: marking and erasing change the flash.
    var timeLimit: Duration {
        switch self {
        case .echo, .parameters, .bootloader, .bootloaderMode, .system, .slots: .seconds(3)
        case .imageState, .reset: .seconds(5)
        case .setState: .seconds(15)
        case .erase, .upload: .seconds(60)
        }
    }

    /// It may be sent again where its answer got lost. A restart is seen by what the device is like afterwards.
    var isRepeatable: Bool { self != .reset }
}
