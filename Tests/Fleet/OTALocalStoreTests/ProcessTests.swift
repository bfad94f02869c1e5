import OTALocalStore
import OTAStore
import OTAUpdate
import StoreContract
import Subprocess
import SystemPackage
import Testing

@Suite("Store in a file: several processes, and processes that are killed") struct ProcessTests {
    @Test("of the writers of two processes, one wins each round")
    func race() async throws { try await Self.race(rounds: 100) }

    @Test("all acknowledged writes of a killed process are in the store")
    func kill() async throws { try await Self.kill(rounds: 8, seed: 1) }

    /// Two processes with 6 writers each compete for the rounds of one record.
    static func race(rounds: Int) async throws {
        let folder = try StoreFolder()
        let wins = try await withThrowingTaskGroup { group in
            for _ in 0..<2 {
                group.addTask {
                    try await folder.runWriter("race", ["--rounds", String(rounds), "--processes", "2"]).compactMap {
                        Int($0)
                    }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect((wins[0] + wins[1]).sorted() == Array(1...rounds), "each round has one winner")
        #expect(!wins[0].isEmpty && !wins[1].isEmpty, "both processes win rounds: \(wins.map(\.count))")
        let store = try await folder.open()
        #expect(try await store.read(.of(.devices, "raced"))?.revision == Revision(UInt64(rounds)))
    }

    /// In each round, two processes write without pause and are killed at a random time. Then everything that they have reported must be in
    /// the store.
    static func kill(rounds: Int, seed: UInt64) async throws {
        let folder = try StoreFolder()
        var random = SplitMix64(seed: seed)
        var revisions: Set<UInt64> = []
        var acknowledged = 0
        for round in 0..<rounds {
            let delays = (0..<2).map { _ in Int.random(in: 1...150, using: &random) }
            let reports = try await withThrowingTaskGroup { group in
                for (writer, delay) in delays.enumerated() {
                    group.addTask {
                        (writer, try await write(as: "w\(round)-\(writer)", in: folder, for: .milliseconds(delay)))
                    }
                }
                return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
            }
            let store = try await folder.open()
            for (writer, lines) in reports {
                let name = "w\(round)-\(writer)"
                let pairs = lines.map { $0.split(separator: " ") }
                try #require(pairs.allSatisfy { $0.count == 2 }, "\(lines)")
                let numbers = pairs.compactMap { UInt64($0[1]) }
                #expect(numbers == numbers.sorted(), "the revisions grow")
                for number in numbers { #expect(revisions.insert(number).inserted, "revision \(number) is used once") }
                let own = pairs.compactMap { pair in Int(pair[0]).map { ($0, UInt64(pair[1]) ?? 0) } }
                #expect(own.map(\.0) == Array(1..<(own.count + 1)), "no write is missing")
                acknowledged += numbers.count
                guard let last = own.last else { continue }
                let record = try #require(try await store.read(.of(.devices, name)))
                let stored = try #require(Int(String(decoding: record.bytes, as: UTF8.self)))
                #expect(stored == last.0 || stored == last.0 + 1, "at most one write is stored and not acknowledged")
                #expect(stored != last.0 || record.revision.number == last.1)
                let events = try await events(of: name, in: store)
                #expect(
                    events.count >= last.0 && events == Array(1..<(UInt32(events.count) + 1)), "no event is missing")
            }
            let shared = try await store.read(.of(.devices, "shared"))?.revision.number ?? 0
            #expect(try await folder.python("PRAGMA integrity_check") == ["ok"])
            let counter = try await folder.python("SELECT value FROM counter WHERE name = 'revision'").first
            #expect(max(revisions.max() ?? 0, shared) <= UInt64(counter ?? "") ?? 0)
        }
        #expect(acknowledged > rounds, "the processes have written \(acknowledged) records")
    }

    private static func events(of device: String, in store: LocalStore) async throws -> [UInt32] {
        var all: [StoredEvent] = []
        while true {
            let next = try await store.events(after: all.last?.number ?? 0)
            if next.isEmpty { return all.filter { $0.event.device.description == device }.map(\.event.attempt) }
            all += next
        }
    }

    /// Runs a writer, kills it after its first write and this time, and returns its lines.
    private static func write(as name: String, in folder: StoreFolder, for time: Duration) async throws -> [String] {
        try await Subprocess.run(
            .path(FilePath(StoreFolder.writer)), arguments: Arguments(["count", folder.file.string, name]),
            input: .none, output: .sequence, error: .discarded
        ) { execution in
            var lines: [String] = []
            var isKilled = false
            for try await line in execution.standardOutput.strings() {
                lines.append(line.filter { $0 != "\n" })
                guard !isKilled else { continue }
                isKilled = true
                try await Task.sleep(for: time)
                try execution.send(signal: .kill)
            }
            return lines
        }.closureResult
    }
}

@Suite("Exhaustive: several processes with a store in a file") struct ExhaustiveProcessTests {
    @Test("of 12 writers of two processes, one wins each of 1500 rounds")
    func race() async throws { try await ProcessTests.race(rounds: 1500) }

    @Test("all acknowledged writes of 100 killed processes are in the store")
    func kill() async throws { try await ProcessTests.kill(rounds: 50, seed: 2) }
}
