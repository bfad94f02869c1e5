extension SMPUpload {
    /// How chunks get to the device, and so how long an answer may take: at most, before it is known how long they do, and at
    /// least, where they are quick.
    package enum Delivery: Sendable {
        /// Each by itself, and it may get lost: a datagram, a line.
        case lossy
        /// Each in one value of a link that loses none.
        case whole
        /// In several values, for which a slow link takes long.
        case fragmented

        package var longestWait: Duration { self == .fragmented ? .seconds(20) : .seconds(4) }
        /// A page of the flash may be erased for a chunk, which takes up to 4 s (128 KiB of an STM32F4, datasheet); but where a chunk is
        /// sent twice for it, that does no harm.
        package var shortestWait: Duration {
            switch self {
            case .lossy: .milliseconds(500)
            case .whole: .seconds(4)
            case .fragmented: .seconds(5)
            }
        }
        /// How often in a row a chunk may go unanswered.
        var maxTimeouts: Int { self == .lossy ? 5 : 3 }
        /// The same of the first one: a minute in all.
        var maxFirstTimeouts: Int { self == .lossy ? 9 : 6 }
    }
}
