import ArgumentParser
import Gauntlet
import Glibc

/// Plays whole updates in worlds made by seeds, on all processors, and tells what was lost.
@main
struct OTAFlashGauntlet: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "otaflash-gauntlet", abstract: "Play whole updates in virtual time, with whatever can go wrong.")

    @Option(help: "How many worlds.")
    var worlds = 20_000

    @Option(help: "The first world's seed; those behind it count up.")
    var firstSeed: UInt64 = 1

    @Flag(help: "Print all that happened in each world.")
    var transcript = false

    /// Lines of a failing world's transcript that say most: its fate, and what came last.
    private static let lastLines = 30

    func run() async throws {
        let gauntlet = try Gauntlet()
        let start = ContinuousClock.now
        let threads = max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        var figures = Figures()
        // Each thread plays a world at a time, from first step to last: virtual time suspends nobody.
        try await withThrowingTaskGroup(of: Figures.self) { group in
            for thread in 0..<threads {
                group.addTask { try play(gauntlet, from: thread, every: threads) }
            }
            for try await part in group { figures.add(part) }
        }
        print(figures.line(after: ContinuousClock.now - start))
        if figures.failed > 0 { throw ExitCode.failure }
    }

    private func play(_ gauntlet: Gauntlet, from first: Int, every stride: Int) throws -> Figures {
        var figures = Figures()
        for world in Swift.stride(from: first, to: worlds, by: stride) {
            let seed = firstSeed &+ UInt64(world)
            let ending = try gauntlet.play(seed: seed, keepsTranscript: transcript)
            figures.add(ending)
            if transcript { print(ending.transcript.joined(separator: "\n")) }
            if !ending.offences.isEmpty { try tell(ending, gauntlet) }
        }
        return figures
    }

    private func tell(_ ending: Gauntlet.Ending, _ gauntlet: Gauntlet) throws {
        let lines = try gauntlet.play(seed: ending.seed, keepsTranscript: true).transcript
        let shortened = lines.prefix(1) + ["…"] + lines.suffix(Self.lastLines)
        print(
            """
            seed \(ending.seed): \(ending.offences.joined(separator: "; "))
              to see it again: \(Gauntlet.replay(ending.seed))
            \(shortened.map { "    " + $0 }.joined(separator: "\n"))
            """)
    }
}
