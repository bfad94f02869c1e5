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
            "With --protocol smp: what it cannot do, of parameters, reassembly, slots, marks and board; repeatable.",
            valueName: "ability"))
    var without: [Ability] = []

    /// The option that was given, for messages.
    var given: String? {
        buffers != nil ? "--buffers" : bufferSize != nil ? "--buffer-size" : without.isEmpty ? nil : "--without"
    }

    func apply(to configuration: inout VirtualSMPConfiguration) {
        configuration.bufferCount = buffers ?? configuration.bufferCount
        configuration.bufferSize = bufferSize ?? configuration.bufferSize
        configuration.tellsParameters = !without.contains(.parameters)
        configuration.reassembles = !without.contains(.reassembly)
        configuration.tellsSlots = !without.contains(.slots)
        configuration.marksImages = !without.contains(.marks)
        configuration.reportsBoard = !without.contains(.board)
    }
}
