import DescriptorIO
import NATS
import NATSTestSupport
import OTANATSStore
import OTAStore
import Testing

/// The server has no JetStream, and another client answers in its place: as a server of a cluster that does not have the newest records yet.
@Suite("Lists from a server of a cluster that is late", .timeLimit(.minutes(5))) struct LateServerTests {
    @Test("a list without a consumer has the records that one of the servers does not have yet", arguments: [1, 9, 90])
    func list(late: Int) async throws {
        let count: UInt64 = 100
        try await withStore { store, server in
            server.set(newest: count, late: late, known: count - 30)
            let records = try await store.records(in: .devices)
            #expect(records.map(\.revision.number) == Array(1...count))
        }
    }

    @Test("a watch without a consumer delivers such records later, and reports no loss")
    func watch() async throws {
        try await withStore { store, server in
            server.set(newest: 10, late: 0, known: 10)
            try await store.withChanges(of: .devices) { changes in
                var revisions: [UInt64] = []
                for try await record in changes {
                    revisions.append(record.revision.number)
                    if revisions.count == 10 { server.set(newest: 20, late: 1, known: 15) }
                    if revisions.count == 20 { break }
                }
                #expect(revisions == Array(1...20))
            }
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

/// Answers the requests to the bucket of the devices. The record with the revision N is that of the device N.
private final class LateServer: Sendable {
    private struct State {
        var newest: UInt64 = 0
        /// The number of answers that are still given by a server that is late, and the newest revision on this server.
        var late = 0
        var known: UInt64 = 0
    }

    private let state = Guarded(State())

    func set(newest: UInt64, late: Int, known: UInt64) {
        state.with { $0 = State(newest: newest, late: late, known: known) }
    }

    func answer(_ request: NATSMessage, _ client: NATSClient) async throws {
        guard let reply = request.reply else { return }
        guard request.subject.hasPrefix("$JS.API.DIRECT.GET.") else {
            let refusal = #"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#
            return try await client.publish(reply, Array(refusal.utf8))
        }
        let text = String(decoding: request.payload, as: UTF8.self)
        let first = text.split(separator: #""seq":"#).last.flatMap { UInt64($0.prefix { $0.isNumber }) }
        let revision = state.with { state -> UInt64? in
            guard let first else { return state.newest }
            if first > state.known, state.late > 0 {
                state.late -= 1
                return nil
            }
            return first <= state.newest ? first : nil
        }
        let stream = request.subject.dropFirst("$JS.API.DIRECT.GET.".count)
        let bucket = stream.dropFirst("KV_".count)
        let headers: NATSHeaders = [
            "Nats-Stream": String(stream), "Nats-Subject": "$KV.\(bucket).device-\(revision ?? 0)",
            "Nats-Sequence": "\(revision ?? 0)",
        ]
        try await client.publish(reply, headers: revision == nil ? ["Status": "404"] : headers, [1])
    }
}
