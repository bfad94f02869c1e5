import OTASigning
package import OTAStore

extension StoreContract {
    static let objectCases = [
        Case("an object has the same bytes for all clients, and can be stored again") { stores in
            // Not a multiple of the 128 KiB of a chunk in a server.
            for count in [0, 1, 128 << 10, (300 << 10) + 1] {
                let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
                let digest = SHA256.digest(of: bytes)
                try expect(await stores.second.object(digest) == nil, true, "before the object is stored")
                try await stores.first.putObject(bytes, digest: digest)
                try await stores.second.putObject(bytes, digest: digest)
                try expect(await stores.second.object(digest), bytes, "an object of \(count) bytes")
            }
        },
        Case("an object whose bytes do not have its digest is refused") { stores in
            let digest = SHA256.digest(of: [1, 2, 3])
            try await expect(.objectDamaged, "other bytes") {
                try await stores.first.putObject([1, 2, 4], digest: digest)
            }
            try expect(await stores.first.object(digest) == nil, true, "nothing is stored")
        },
        Case("an object has at most 16 MiB") { stores in
            let bytes = [UInt8](repeating: 1, count: (16 << 20) + 1)
            let digest = SHA256.digest(of: bytes)
            try await expect(.recordTooLarge, "16 MiB and one byte") {
                try await stores.first.putObject(bytes, digest: digest)
            }
            try expect(await stores.first.object(digest) == nil, true, "nothing is stored")
        },
    ]

    static let eventCases = [
        Case("events are in the order of their numbers, complete, and each is stored once") { stores in
            try expect(await stores.first.events(after: 0).count, 0, "no event")
            let one = try event("sim-a", attempt: 1, "confirmed", by: "berlin-7")
            let two = try event("sim-a", attempt: .max, "rolled-back", by: "berlin-8")
            try await stores.first.append(one)
            try await stores.second.append(two)
            // The acknowledgement was lost, or another gateway reports the same end.
            try await stores.second.append(one)
            try await stores.first.append(try event("sim-a", attempt: 1, "confirmed", by: "berlin-8"))
            let stored = try await stores.second.events(after: 0)
            try expect(stored.map(\.event), [one, two], "the events")
            try expect(stored.map(\.number), stored.map(\.number).sorted(), "the numbers")
            try expect(stored[0].number > 0 && stored[0].number < stored[1].number, true, "each has another number")
            try expect(await stores.first.events(after: stored[0].number), [stored[1]], "after the first")
            try expect(await stores.first.events(after: stored[1].number).count, 0, "after the last")
            try expect(await stores.first.events(after: .max).count, 0, "after the greatest number")
        },
        Case("events of two rollouts, devices, attempts or kinds are different events") { stores in
            let one = try event("sim-a", attempt: 1, "confirmed")
            let others = [
                try event("sim-b", attempt: 1, "confirmed"), try event("sim-a", attempt: 2, "confirmed"),
                try event("sim-a", attempt: 1, "refused"), try event("sim-a", attempt: 1, "confirmed", in: "t-141"),
                try event("_.01", attempt: 0, "record-untrusted"), try event("_.02", attempt: 0, "record-untrusted"),
            ]
            for event in [one] + others { try await stores.first.append(event) }
            try expect(await stores.first.events(after: 0).map(\.event), [one] + others, "the events")
        },
        Case("an event has at most 4096 bytes") { stores in
            let whole = try event("sim-a", attempt: 1, "confirmed", count: 4096)
            try await stores.first.append(whole)
            let larger = try event("sim-a", attempt: 2, "confirmed", count: 4097)
            try await expect(.recordTooLarge, "4097 bytes") { try await stores.first.append(larger) }
            try expect(await stores.second.events(after: 0).map(\.event), [whole], "the events")
        },
    ]

    static let eventAgeCases = [
        Case("an event ends after 90 days, and its number is not used again") { stores in
            let one = try event("sim-a", attempt: 1, "confirmed")
            try await stores.first.append(one)
            stores.clock?.advance(by: .seconds(90 * 86_400))
            let number = try await stores.second.events(after: 0).first?.number ?? 0
            try expect(number > 0, true, "the event exists for 90 days")
            stores.clock?.advance(by: .seconds(1))
            try expect(await stores.second.events(after: 0).count, 0, "after 90 days and 1 s")
            let two = try event("sim-a", attempt: 2, "confirmed")
            try await stores.second.append(two)
            let stored = try await stores.first.events(after: 0)
            try expect(stored.map(\.event), [two], "the events")
            try expect(number < stored[0].number, true, "another number")
        }
    ]

    /// An event of a test.
    package static func event(
        _ device: String, attempt: UInt32, _ kind: String, by gateway: String = "berlin-7",
        in rollout: String = "t-140",
        count: Int = 3
    ) throws(Violation) -> FleetEvent {
        FleetEvent(
            rollout: try RecordKey.of(.rollouts, rollout).name, device: try RecordKey.of(.devices, device).name,
            gateway: try RecordKey.of(.gateways, gateway).name, attempt: attempt,
            kind: try RecordKey.of(.devices, kind).name, bytes: [UInt8](repeating: UInt8(ascii: "7"), count: count))
    }
}
