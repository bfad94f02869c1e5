/// A request that is not yet answered. One at a time.
struct Exchange {
    /// A device that is busy is asked again so often, and for so long.
    static let busyInterval = Duration.seconds(2)
    static let busyLimit = Duration.seconds(90)

    let request: Request
    let tag: UInt8
    /// When the answer has to be there.
    let due: Duration
    /// When the device may no longer say that it is busy.
    let busyUntil: Duration

    init(_ request: Request, tag: UInt8, at now: Duration, busyUntil: Duration?) {
        self.request = request
        self.tag = tag
        due = now + request.timeLimit
        self.busyUntil = busyUntil ?? now + Self.busyLimit
    }
}
