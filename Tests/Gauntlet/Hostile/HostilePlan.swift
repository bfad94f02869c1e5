import OTAUpdate

/// How a lying device behaves. Other than the random faults of a world, a hostile device follows one plan from the first link to the last.
package struct HostilePlan: Sendable {
    package enum Strategy: CaseIterable, Sendable {
        /// Asks for two offsets in turn.
        case alternating
        /// Accepts `step` bytes, or one chunk, of all that is sent.
        case creeping
        /// Answers as late as it may, and accepts one chunk for each answer.
        case dripping
        /// Answers each request with *busy*, nearly as long as the host waits.
        case busy
        /// Restarts at 99 % of the image, each time a little later.
        case restarting
        /// Accepts the whole image, and then denies that.
        case denying
        /// Accepts everything, and then never runs the new image, never comes back, or never ends the trial.
        case staying
    }
    package var strategy: Strategy
    /// Bytes by which it comes further.
    package var step: Int
    /// How late each answer comes.
    package var delay: Duration
    /// Chunks in flight, or packet buffers.
    package var window: Int
    /// The link's, in bytes.
    package var valueLength: Int
    /// The link breaks after so many answers; 0: never.
    package var breaksEvery: Int
    /// Times that each answer is repeated.
    package var echoes: Int
    /// It announces the longest times that fit in the frame.
    package var announcesMaxima: Bool
    /// Which of a strategy's forms it takes.
    package var variant: Int

    /// - Parameter draw: a number in the range: random, or a fuzzer's.
    package init(draw: (ClosedRange<Int>) -> Int) {
        func one<Choice>(of choices: [Choice]) -> Choice { choices[draw(0...choices.count - 1)] }
        strategy = one(of: Strategy.allCases)
        step = one(of: [1, 2, 18, 100, 1000])
        delay = one(of: [.zero, .zero, .milliseconds(50), .milliseconds(900), .milliseconds(3900), .seconds(9)])
        window = one(of: [1, 2, 16, 64, 1000])
        valueLength = one(of: [128, 244, 495])
        breaksEvery = one(of: [0, 0, 1, 3, 7, 50])
        echoes = one(of: [0, 0, 0, 3])
        announcesMaxima = draw(0...1) == 1
        variant = draw(0...3)
    }
}

/// What a lying device does, as a value. Its inputs are the host's commands, its outputs are events with their delays.
protocol HostilePeer: Sendable {
    /// Nil: it does not come back.
    mutating func connect() -> LinkProperties?
    mutating func handle(_ command: LinkCommand) -> [HostileReply]
}

struct HostileReply: Sendable {
    var delay: Duration
    /// `.lost` breaks the link.
    var event: LinkEvent
}

extension HostilePlan {
    /// Replies as the plan has it: late, repeated, and with a link that breaks.
    ///
    /// - Parameter answers: those on this link so far.
    func replies(_ values: [[UInt8]], on channel: Channel, answers: inout Int) -> [HostileReply] {
        var replies: [HostileReply] = []
        for value in values {
            answers += 1
            replies.append(HostileReply(delay: delay, event: .notified(value, channel)))
            replies += (0..<echoes).map { _ in HostileReply(delay: .zero, event: .notified(value, channel)) }
            if breaksEvery > 0, answers > 12, answers % breaksEvery == 0 { replies.append(.loss) }
        }
        return replies
    }
}

extension HostileReply {
    static let loss = HostileReply(delay: .zero, event: .lost(LinkError(.lost, "the hostile device broke the link")))
}
