import ArgumentParser
import Gauntlet
import Glibc
import OTATestSupport

/// Plays complete updates in worlds made from seeds, on all processors, and reports the failed worlds.
@main
struct OTAFlashGauntlet: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "otaflash-gauntlet", abstract: "Play complete updates in virtual time, with injected faults.")

    @Option(help: "Number of worlds to play.")
    var worlds = 20_000

    @Option(help: "Seed of the first world. Each next world has the next seed.")
    var firstSeed: UInt64 = 1

    @Option(
        help: ArgumentHelp(
            "Play the worlds of former failures, then new worlds. The commit's hash gives their first seed.",
            valueName: "hash"))
    var commit: String?

    @Flag(help: "Print the transcript of each world.")
    var transcript = false

    /// The number of transcript lines to print before the first offence of a failed world, after its fate.
    private static let lastLines = 30

    /// The number of worlds after which all code has run once. After that, the process's memory must not grow.
    private static let warmUp = 500
    /// The freed memory that the allocator keeps, in bytes.
    private static let slack = 24 << 20

    /// The number of hex digits of a commit's hash in a seed: 48 bits, so that two commits share no world.
    private static let digits = 12

    func validate() throws {
        guard let commit, seed(of: commit) == nil else { return }
        throw ValidationError(
            "'\(commit)' is not a commit hash. Expected \(Self.digits) or more hex digits (example: 0123456789ab).")
    }

    private func seed(of commit: String) -> UInt64? {
        commit.utf8.count < Self.digits || !commit.allSatisfy(\.isHexDigit)
            ? nil : UInt64(commit.prefix(Self.digits), radix: 16)
    }

    func run() async throws {
        let start = ContinuousClock.now
        var first = firstSeed
        var figures = Figures()
        if let commit, let seed = seed(of: commit) {
            first = seed
            figures.add(try play(Gauntlet.formerFailures))
            print("first seed \(first), of commit \(commit): scripts/gauntlet --worlds \(worlds) --first-seed \(first)")
        }
        let warmUp = min(worlds, Self.warmUp)
        figures.add(try await play(0..<warmUp, from: first))
        let warm = Footprint()
        figures.add(try await play(warmUp..<max(warmUp, worlds), from: first))
        let last = Footprint()
        let isStable = last.isStable(since: warm, slack: Self.slack)
        if !isStable { print("the process's memory has grown: \(last.growth(since: warm))") }
        print("\(figures.line(after: ContinuousClock.now - start)), \(last.growth(since: warm))")
        if figures.failed > 0 || !isStable { throw ExitCode.failure }
    }

    /// Plays the worlds on all processors. Each thread plays one complete world at a time, because virtual time never suspends a thread.
    private func play(_ range: Range<Int>, from first: UInt64) async throws -> Figures {
        let threads = max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        return try await withThrowingTaskGroup(of: Figures.self) { group in
            for thread in 0..<threads {
                group.addTask {
                    let part = stride(from: range.lowerBound + thread, to: range.upperBound, by: threads)
                    return try play(part.lazy.map { first &+ UInt64($0) })
                }
            }
            var figures = Figures()
            for try await part in group { figures.add(part) }
            return figures
        }
    }

    private func play(_ seeds: some Sequence<UInt64>) throws -> Figures {
        // Each thread has its own copy: reference counts that two processors change move between their caches.
        let gauntlet = try Gauntlet()
        var figures = Figures()
        for seed in seeds {
            let ending = try gauntlet.play(seed: seed, keepsTranscript: transcript)
            figures.add(ending)
            if transcript { print(ending.transcript.joined(separator: "\n")) }
            if !ending.offences.isEmpty { try tell(ending, gauntlet) }
        }
        return figures
    }

    private func tell(_ ending: Gauntlet.Ending, _ gauntlet: Gauntlet) throws {
        let lines = try gauntlet.play(seed: ending.seed, keepsTranscript: true).transcript
        let end = lines.firstIndex { $0.hasPrefix(Gauntlet.offenceMark) }.map { $0 + 1 } ?? lines.count
        let shortened = lines.prefix(1) + ["…"] + lines[1..<end].suffix(Self.lastLines)
        print(
            """
            seed \(ending.seed): \(ending.offences.joined(separator: "; "))
              to see it again: \(Gauntlet.replay(ending.seed))
            \(shortened.map { "    " + $0 }.joined(separator: "\n"))
            """)
    }
}
