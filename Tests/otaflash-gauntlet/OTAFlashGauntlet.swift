import ArgumentParser
import Gauntlet
import Glibc
import OTATestSupport

/// Plays whole updates in worlds made by seeds, on all processors, and tells what was lost.
@main
struct OTAFlashGauntlet: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "otaflash-gauntlet", abstract: "Play whole updates in virtual time, with whatever can go wrong.")

    @Option(help: "How many worlds.")
    var worlds = 20_000

    @Option(help: "The first world's seed; those behind it count up.")
    var firstSeed: UInt64 = 1

    @Option(
        help: ArgumentHelp(
            "Play the worlds of former failures, and then new ones whose first seed comes from this commit.",
            valueName: "hash"))
    var commit: String?

    @Flag(help: "Print all that happened in each world.")
    var transcript = false

    /// Lines of a failing world's transcript that say most: its fate, and what came before the first offence.
    private static let lastLines = 30

    /// Worlds after which everything has been used once; what the process takes from then on may not grow.
    private static let warmUp = 500
    /// Pages of freed memory that the allocator keeps, in bytes.
    private static let slack = 24 << 20

    /// Hex digits of a commit's hash that make a seed: 48 bits, so that two commits have no world in common.
    private static let digits = 12

    func validate() throws {
        guard let commit, seed(of: commit) == nil else { return }
        throw ValidationError(
            "'\(commit)' is not a commit's hash: \(Self.digits) or more hex digits, such as 0123456789ab.")
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
        if !isStable { print("the process has grown: \(last.growth(since: warm))") }
        print("\(figures.line(after: ContinuousClock.now - start)), \(last.growth(since: warm))")
        if figures.failed > 0 || !isStable { throw ExitCode.failure }
    }

    /// On all processors. Each thread plays a world at a time, from first step to last: virtual time suspends nobody.
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
        // One for each thread: bytes that two processors count references to are passed to and fro between them.
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
