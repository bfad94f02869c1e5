import OTAUpdate

/// The behaviour of a hostile device. It follows one plan on all links, unlike the random faults of a world.
package struct HostilePlan: Sendable {
    package enum Strategy: CaseIterable, Sendable {
        /// Requests two offsets alternately.
        case alternating
        /// Accepts only `step` bytes or one chunk of the sent bytes.
        case creeping
        /// Answers as late as the protocol permits, and accepts one chunk for each answer.
        case dripping
        /// Answers each request with *busy*, for nearly as long as the host waits.
        case busy
        /// Restarts at 99 % of the image, each time a little later.
        case restarting
        /// Accepts the whole image, and then reports that it does not have it.
        case denying
        /// Accepts everything, and then never runs the new image, never accepts a connection again, or never ends the trial.
        case staying
    }
    /// How the device lies about encoded images. The strategy applies, too.
    package enum Encoding: CaseIterable, Sendable {
        /// It offers no encodings.
        case none
        /// It follows the strategy only.
        case honest
        /// It refuses each base, or each encoded image.
        case refusing
        /// It reports that it cannot decode the stream, after some of the bytes.
        case undecodable
        /// It answers any request, and ends any transfer, with *wrong base* or *not decoded*.
        case anyTime
        /// It continues at an offset that is outside the image or outside the stream.
        case outside
        /// Its positions in the stream decrease, and its offset in the image decreases with each BEGIN.
        case retreating
        /// It accepts the whole stream, and then reports that the image is incomplete.
        case incomplete
    }
    package var strategy: Strategy
    package var encoding = Encoding.none
    /// The size of the largest base that the device announces.
    package var largestBase: UInt32 = 0
    /// The number of bytes by which its offset advances.
    package var step: Int
    /// The delay of each answer.
    package var delay: Duration
    /// The number of chunks in flight, or of packet buffers.
    package var window: Int
    /// The longest value of the link, in bytes.
    package var valueLength: Int
    /// The link breaks after this number of answers; 0 means never.
    package var breaksEvery: Int
    /// The number of repetitions of each answer.
    package var echoes: Int
    /// The device announces the longest times that fit in the frame.
    package var announcesMaxima: Bool
    /// Selects one of the variants of the strategy.
    package var variant: Int

    /// - Parameter draw: returns a number in the range, from a random generator or a fuzzer.
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

    /// Chooses the lies about encoded images. These numbers are drawn last, so that the plans of older seeds stay the same.
    mutating func offerEncodings(draw: (ClosedRange<Int>) -> Int) {
        encoding = Encoding.allCases[draw(0...Encoding.allCases.count - 1)]
        largestBase = [UInt32.max, 1 << 20, 16_000, 1, 0][draw(0...4)]
    }
}

/// The state machine of a hostile device. Its inputs are the host's commands. Its outputs are events with delays.
protocol HostilePeer: Sendable {
    /// Returns nil if the device accepts no connection.
    mutating func connect() -> LinkProperties?
    mutating func handle(_ command: LinkCommand) -> [HostileReply]
}

struct HostileReply: Sendable {
    var delay: Duration
    /// nil: the device breaks the link.
    var event: LinkEvent?
}

extension HostilePlan {
    /// Applies the plan to the answers: delays, repetitions and link breaks.
    ///
    /// - Parameter answers: the number of answers on this link so far.
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
    static let loss = HostileReply(delay: .zero, event: nil)
}
