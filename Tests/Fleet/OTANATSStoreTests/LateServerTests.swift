import DescriptorIO
import NATS
import NATSTestSupport
import OTANATSStore
import OTAStore
import Testing

/// The server has no JetStream, and another client answers in its place: as a server of a cluster that does not have the newest records yet,
/// or as a server with a record that is replaced at the worst moment.
@Suite("Lists from a server that is late or gets writes") struct LateServerTests {
    @Test(
        "a list without a consumer has the records that one of the servers does not have yet",
        arguments: [(1, 1), (1, 9), (1, 40)])
    func list(after: Int, late: Int) async throws {
        let count: UInt64 = 100
        try await withStore { store, server in
            server.set(devices: count, after: after, late: late, known: count - 30)
            let records = try await store.records(in: .devices)
            #expect(records.map(\.revision.number) == Array(1...count))
        }
    }

    @Test(
        "a watch without a consumer delivers such records later, and reports no loss after one or two late searches",
        arguments: [3, 6])
    func watch(late: Int) async throws {
        try await withStore { store, server in
            server.set(devices: 10)
            try await store.withChanges(of: .devices) { changes in
                // After the first late search, all records are delivered again.
                var (revisions, isLate) = (Set<UInt64>(), false)
                for try await record in changes {
                    revisions.insert(record.revision.number)
                    if revisions.count == 10, !isLate { server.set(devices: 20, late: late, known: 8) }
                    isLate = revisions.count >= 10
                    if revisions.count == 20 { break }
                }
                #expect(revisions == Set(1...20))
            }
        }
    }

    @Test(
        "a list without a consumer has a record that is replaced each time just before it is read",
        arguments: [1, 2, 100])
    func replaced(times: Int) async throws {
        try await withStore { store, server in
            server.set(devices: 10, replacements: times)
            let records = try await store.records(in: .devices)
            #expect(
                records.map(\.revision.number).dropLast() == Array(2...10)
                    && records.last?.key.name.description == "device-1")
        }
    }

    private func withStore(_ body: @Sendable (NATSStore, LateServer) async throws -> Void) async throws {
        try await TestServer.run(.newest, hasJetStream: false) { server in
            try await NATSClient.withClient(server.options) { other in
                let late = LateServer()
                let requests = try await other.subscribe("$JS.API.>")
                let task = Task { for try await request in requests { try await late.answer(request, other) } }
                defer { task.cancel() }
                // After this answer, the server has the subscription.
                await #expect(throws: NATSError(.noResponders, "")) { _ = try await other.request("nobody") }
                try await NATSClient.withClient(server.options) { try await body(NATSStore($0), late) }
            }
        }
    }
}

/// Answers the requests to the bucket of the devices. The record of the device N has the revision N, except for the device 1.
private final class LateServer: Sendable {
    private struct State {
        var devices: UInt64
        /// The number of answers before those of a server that is late, the number of its answers, and the newest revision on this server.
        var after = 0
        var late = 0
        var known: UInt64 = 0
        /// The revision of the device 1, and the number of times that its record is replaced just before it is read.
        var first: UInt64 = 1
        var replacements = 0

        var newest: UInt64 { max(devices, first) }
        /// Whether the server that is late answers this request, and does not have the revision.
        private mutating func isLate(_ revision: UInt64) -> Bool {
            guard late > 0, revision > known else { return false }
            if after > 0 {
                after -= 1
                return false
            }
            late -= 1
            return true
        }

        mutating func newestRecord() -> (revision: UInt64, device: UInt64)? {
            if isLate(newest) {
                return (known, known)
            }
            return (newest, newest == first ? 1 : newest)
        }

        /// Returns the lowest present revision from a number on, and the number of its device.
        mutating func record(from start: UInt64) -> (revision: UInt64, device: UInt64)? {
            if isLate(start) {
                return nil
            }
            let other = max(start, 2) <= devices ? max(start, 2) : nil
            if replacements > 0, first >= start, first < other ?? .max {
                replacements -= 1
                first = newest + 1
            }
            if first >= start, first < other ?? .max { return (first, 1) }
            return other.map { ($0, $0) }
        }
    }

    private let state = Guarded(State(devices: 0))

    func set(devices: UInt64, after: Int = 0, late: Int = 0, known: UInt64 = 0, replacements: Int = 0) {
        state.with {
            $0 = State(devices: devices, after: after, late: late, known: known, replacements: replacements)
        }
    }

    func answer(_ request: NATSMessage, _ client: NATSClient) async throws {
        guard let reply = request.reply else { return }
        guard request.subject.hasPrefix("$JS.API.DIRECT.GET.") else {
            let refusal = #"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#
            return try await client.publish(reply, Array(refusal.utf8))
        }
        let text = String(decoding: request.payload, as: UTF8.self)
        let start = text.split(separator: #""seq":"#).last.flatMap { UInt64($0.prefix { $0.isNumber }) }
        let record = state.with { start == nil ? $0.newestRecord() : $0.record(from: start ?? 0) }
        let stream = request.subject.dropFirst("$JS.API.DIRECT.GET.".count)
        guard let record else { return try await client.publish(reply, headers: ["Status": "404"]) }
        let headers: NATSHeaders = [
            "Nats-Stream": String(stream),
            "Nats-Subject": "$KV.\(stream.dropFirst("KV_".count)).device-\(record.device)",
            "Nats-Sequence": "\(record.revision)",
        ]
        try await client.publish(reply, headers: headers, [1])
    }
}
