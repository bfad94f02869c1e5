import ArgumentParser
import OTASimulator

/// The options of a virtual device that speaks SMP.
struct SMPDeviceOptions: ParsableArguments {
    /// An ability that `--without` removes.
    enum Ability: String, ExpressibleByArgument, CaseIterable, Sendable {
        /// The device reports the number and the size of its buffers.
        case parameters
        /// The device reassembles a packet from several values.
        case reassembly
        /// The device reports the sizes of its slots.
        case slots
        /// The device can mark an image for the next boot.
        case marks
        /// The device reports the name of its board.
        case board
    }

    @Option(help: ArgumentHelp("The number of packet buffers; default: 4 (SMP only).", valueName: "n"))
    var buffers: Int?

    @Option(help: ArgumentHelp("The longest packet, header included; default: 2475 (SMP only).", valueName: "bytes"))
    var bufferSize: Int?

    @Option(
        help: ArgumentHelp(
            "Remove an ability: parameters, reassembly, slots, marks or board; repeatable (SMP only).",
            valueName: "ability"))
    var without: [Ability] = []

    @Option(
        help: ArgumentHelp(
            "Time from a packet to its answer, 0 to 60000; default: 0 (SMP only).", valueName: "milliseconds"))
    var answerTime: Int?

    @Option(
        help: ArgumentHelp(
            "Time from an answer until its buffers are free, 0 to 60000; default: 0 (SMP only).",
            valueName: "milliseconds"))
    var releaseTime: Int?

    func validate() throws {
        for (value, option) in [(answerTime, "--answer-time"), (releaseTime, "--release-time")] {
            guard let value, !(0...60000 ~= value) else { continue }
            throw ValidationError(
                "'\(value)' for \(option) is too \(value < 0 ? "small" : "large"): expected 0 to 60000 (milliseconds)")
        }
    }

    /// The name of the first option that was given, for messages; nil if none was given.
    var given: String? {
        [
            (buffers != nil, "--buffers"), (bufferSize != nil, "--buffer-size"), (!without.isEmpty, "--without"),
            (answerTime != nil, "--answer-time"), (releaseTime != nil, "--release-time"),
        ].first(where: \.0)?.1
    }

    func apply(to configuration: inout VirtualSMPConfiguration) {
        configuration.bufferCount = buffers ?? configuration.bufferCount
        configuration.bufferSize = bufferSize ?? configuration.bufferSize
        configuration.answerDelay = answerTime.map { .milliseconds($0) } ?? configuration.answerDelay
        configuration.releaseDelay = releaseTime.map { .milliseconds($0) } ?? configuration.releaseDelay
        configuration.reportsParameters = !without.contains(.parameters)
        configuration.reassembles = !without.contains(.reassembly)
        configuration.reportsSlots = !without.contains(.slots)
        configuration.marksImages = !without.contains(.marks)
        configuration.reportsBoard = !without.contains(.board)
    }
}
