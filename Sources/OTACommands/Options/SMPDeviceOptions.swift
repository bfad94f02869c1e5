import ArgumentParser
import OTASimulator

/// What a virtual device that speaks SMP has, and what it lacks.
struct SMPDeviceOptions: ParsableArguments {
    enum Ability: String, ExpressibleByArgument, CaseIterable, Sendable {
        /// It tells how many buffers it has, and how large.
        case parameters
        /// It takes a packet in several values.
        case reassembly
        /// It tells how large its slots are.
        case slots
        /// It marks images for the next start.
        case marks
        /// It reports its board's name.
        case board
    }

    @Option(help: ArgumentHelp("With --protocol smp: how many packets it has room for.", valueName: "n"))
    var buffers: Int?

    @Option(help: ArgumentHelp("With --protocol smp: the longest packet that it takes.", valueName: "bytes"))
    var bufferSize: Int?

    @Option(
        help: ArgumentHelp(
            "Remove an ability: parameters, reassembly, slots, marks or board; repeatable.",
            valueName: "ability"))
    var without: [Ability] = []

    @Option(
        help: ArgumentHelp(
            "With --protocol smp: time from a packet to its answer, 0 to 60000; default 0.", valueName: "milliseconds"))
    var answerTime: Int?

    @Option(
        help: ArgumentHelp(
            "With --protocol smp: time from an answer until its buffers are free again, 0 to 60000; default 0.",
            valueName: "milliseconds"))
    var releaseTime: Int?

    func validate() throws {
        for (value, option) in [(answerTime, "--answer-time"), (releaseTime, "--release-time")] {
            guard let value, !(0...60000 ~= value) else { continue }
            throw ValidationError(
                "'\(value)' for \(option) is too \(value < 0 ? "small" : "large"): expected 0 to 60000 (milliseconds)")
        }
    }

    /// The option that was given, for messages.
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
