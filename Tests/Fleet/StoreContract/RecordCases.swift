public import OTAStore

extension StoreContract {
    static let recordCases = [
        Case("a record that was never written does not exist") { stores in
            let key = try RecordKey.of(.devices, "sim-a")
            try expect(await stores.first.read(key) == nil, true, "read")
            try expect(await stores.first.records(in: .devices).count, 0, "records")
        },
        Case("a created record has the same bytes and the same revision for all clients") { stores in
            let key = try RecordKey.of(.devices, "sim-a")
            let bytes: [UInt8] = [0, 255, 10, 0]
            try expect(await stores.first.write([], at: key, expecting: Revision(1)), .conflict, "no record yet")
            guard case .written(let revision) = try await stores.first.write(bytes, at: key, expecting: .absent) else {
                throw Violation(description: "the record was not created")
            }
            let record = StoredRecord(key: key, revision: revision, bytes: bytes)
            try expect(await stores.first.read(key), record, "the writer's read")
            try expect(await stores.second.read(key), record, "the other client's read")
            try expect(await stores.second.records(in: .devices), [record], "the other client's list")
        },
        Case("a record is removed only with its revision, and can then be created again") { stores in
            guard let first = stores.first as? any CleanableStore else { return }
            let key = try RecordKey.of(.devices, "sim-a")
            try expect(await first.remove(key, expecting: Revision(1)), false, "no record yet")
            let old = try await stores.first.put("one", at: key)
            let other = try RecordKey.of(.devices, "sim-b")
            let kept = try await stores.first.put("other", at: other)
            let new = try await stores.second.put("two", at: key, expecting: old)
            try expect(await first.remove(key, expecting: old), false, "with the earlier revision")
            try expect(await stores.second.text(key), "two", "the bytes")
            try expect(await first.removeForeign(in: .devices), 0, "no foreign entries")
            try expect(await first.remove(key, expecting: new), true, "with the revision")
            try expect(await stores.second.read(key) == nil, true, "the removed record")
            try expect(await stores.second.records(in: .devices).map(\.revision), [kept], "the other record")
            _ = try await stores.second.put("three", at: key)
        },
        Case("a record is created only once") { stores in
            let key = try RecordKey.of(.devices, "sim-a")
            _ = try await stores.first.put("one", at: key)
            try expect(await stores.second.write([1], at: key, expecting: .absent), .conflict, "the second creation")
            try expect(await stores.first.text(key), "one", "the bytes")
        },
        Case("a write with the revision of an earlier read is a conflict, and changes nothing") { stores in
            let key = try RecordKey.of(.devices, "sim-a")
            let old = try await stores.first.put("one", at: key)
            let new = try await stores.second.put("two", at: key, expecting: old)
            try expect(old < new, true, "the revision grows")
            for wrong in [old, .absent, Revision(new.number + 1), Revision(.max)] {
                try expect(await stores.first.write([1], at: key, expecting: wrong), .conflict, "expecting \(wrong)")
            }
            try expect(await stores.first.text(key), "two", "the bytes")
            try expect(await stores.first.read(key)?.revision, new, "the revision")
            _ = try await stores.first.put("three", at: key, expecting: new)
        },
        Case(
            "a later write in a bucket has a greater revision, and a record of the same name in another bucket is another record"
        ) {
            stores in
            for bucket in Bucket.allCases {
                var last = Revision.absent
                for (store, name) in [(stores.first, "same-name"), (stores.second, "other-name")] {
                    let revision = try await store.put("x", at: .of(bucket, name))
                    try expect(last < revision, true, "\(last) before \(revision) in \(bucket)")
                    last = revision
                }
            }
            for bucket in Bucket.allCases {
                try expect(await stores.first.records(in: bucket).count, 2, "records in \(bucket)")
            }
        },
        Case("the records of a bucket are in the order of their revisions") { stores in
            let names = ["m", "z", "a"]
            for name in names { _ = try await stores.first.put(name, at: .of(.sightings, "\(name).berlin-7")) }
            let a = try RecordKey.of(.sightings, "m.berlin-7")
            let revision = try await stores.second.read(a)?.revision ?? .absent
            _ = try await stores.second.put("again", at: a, expecting: revision)
            let records = try await stores.first.records(in: .sightings)
            try expect(records.map { $0.key.name.parts[0] }, ["z", "a", "m"], "the names")
            try expect(records.map(\.revision), records.map(\.revision).sorted(), "the revisions")
        },
        Case("a record has 0 to 4096 bytes") { stores in
            let key = try RecordKey.of(.releases, "big")
            let whole = [UInt8](repeating: 7, count: 4096)
            try await expect(.recordTooLarge, "4097 bytes") {
                _ = try await stores.first.write(whole + [7], at: key, expecting: .absent)
            }
            try expect(await stores.first.read(key) == nil, true, "nothing is stored")
            guard case .written(let revision) = try await stores.first.write(whole, at: key, expecting: .absent) else {
                throw Violation(description: "4096 bytes were not written")
            }
            try expect(await stores.second.read(key)?.bytes, whole, "4096 bytes")
            _ = try await stores.second.put("", at: key, expecting: revision)
            try expect(await stores.first.read(key)?.bytes, [], "0 bytes")
        },
        Case("of 12 writers that expect the same revision, one writes") { stores in
            let key = try RecordKey.of(.devices, "raced")
            let wins = try await withThrowingTaskGroup { group in
                for store in [stores.first, stores.second] {
                    group.addTask { try await race(for: key, in: store, writers: 6, rounds: 40) }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            try expect(wins.sorted(), Array(1...40), "the rounds with a winner")
        },
    ]

    static let recordAgeCases = [
        Case("the record of a gateway ends 90 s after its last write") { stores in
            let key = try RecordKey.of(.gateways, "berlin-7")
            let first = try await stores.first.put("one", at: key)
            stores.clock?.advance(by: .seconds(60))
            let second = try await stores.first.put("two", at: key, expecting: first)
            stores.clock?.advance(by: .seconds(90))
            try expect(await stores.second.text(key), "two", "after 90 s")
            try expect(await stores.second.records(in: .gateways).count, 1, "records after 90 s")
            stores.clock?.advance(by: .milliseconds(1))
            try expect(await stores.second.text(key), nil, "after 90.001 s")
            try expect(await stores.second.records(in: .gateways).count, 0, "records after 90.001 s")
            try expect(await stores.first.write([], at: key, expecting: second), .conflict, "with the old revision")
            _ = try await stores.first.put("three", at: key)
            try expect(await stores.second.text(key), "three", "created again")
        },
        Case("a sighting ends after 15 minutes, and other records do not end") { stores in
            for bucket in Bucket.allCases { _ = try await stores.first.put("x", at: .of(bucket, "a")) }
            stores.clock?.advance(by: .seconds(900))
            try expect(await stores.second.records(in: .sightings).count, 1, "after 900 s")
            stores.clock?.advance(by: .seconds(1))
            try expect(await stores.second.records(in: .sightings).count, 0, "after 901 s")
            stores.clock?.advance(by: .seconds(5 * 365 * 86_400))
            // A write, because a store can delete old records when it writes.
            _ = try await stores.first.put("y", at: .of(.devices, "b"))
            let counts = [Bucket.releases: 1, .rollouts: 1, .progress: 1, .devices: 2, .sightings: 0, .gateways: 0]
            for (bucket, count) in counts {
                try expect(await stores.second.records(in: bucket).count, count, "\(bucket) after five years")
            }
        },
    ]
}

/// Writes a record again and again, until it has been written `rounds` times. Each writer reads the record, and writes the next round with
/// the revision that it has read.
///
/// - Parameter won: called for each round that a writer of this call has won.
/// - Returns: these rounds.
@discardableResult
public func race(
    for key: RecordKey, in store: any FleetStore, writers: Int, rounds: Int,
    won: @escaping @Sendable (Int) -> Void = { _ in }
) async throws -> [Int] {
    try await withThrowingTaskGroup(of: [Int].self) { group in
        for _ in 0..<writers {
            group.addTask {
                var wins: [Int] = []
                while true {
                    let record = try await store.read(key)
                    let round = Int(String(decoding: record?.bytes ?? [], as: UTF8.self)) ?? 0
                    guard round < rounds else { return wins }
                    let next = Array(String(round + 1).utf8)
                    switch try await store.write(next, at: key, expecting: record?.revision ?? .absent) {
                    case .written:
                        wins.append(round + 1)
                        won(round + 1)
                    case .conflict: break
                    case .unknown: throw Violation(description: "round \(round + 1) has an unknown outcome")
                    }
                }
            }
        }
        return try await group.reduce(into: []) { $0 += $1 }
    }
}
