import DescriptorIO
import NATS
import NATSTestSupport
import Testing

/// The server has no JetStream, and another client answers in its place.
@Suite("Answers of a hostile server")
struct HostileServerTests {
    @Test("malformed answers to a write are refused")
    func writes() async throws {
        let answers: [String: NATSError.Code] = [
            "": .protocolError, "{": .protocolError, "{}": .protocolError, "[]": .protocolError, "null": .protocolError,
            #"{"stream":"KV_other","seq":1}"#: .protocolError,
            #"{"stream":"KV_devices","seq":0}"#: .protocolError,
            #"{"stream":"KV_devices","seq":-1}"#: .protocolError,
            #"{"stream":"KV_devices","seq":1e99}"#: .protocolError,
            #"{"stream":"KV_devices","seq":"1"}"#: .protocolError,
            String(repeating: "[", count: 100_000): .protocolError,
            "\u{0}": .protocolError,
            #"{"error":{"code":500}}"#: .serverError,
            #"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 7"}}"#: .conflict,
            #"{"error":{"code":400,"err_code":10164}}"#: .tryAgain,
            #"{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}}"#: .storeFull,
        ]
        try await withBucket { bucket, script in
            for (answer, code) in answers {
                script.set { _ in [Answer(payload: answer)] }
                do throws(NATSError) {
                    _ = try await bucket.write([1], "a", expecting: 1)
                    Issue.record("\(answer.prefix(80)) was accepted")
                } catch {
                    #expect(error.code == code, "\(answer.prefix(80))")
                }
            }
            script.set { _ in [Answer(payload: #"{"stream":"KV_devices","seq":9,"domain":"x"}"#)] }
            let revision = try await bucket.write([1], "a", expecting: 1)
            #expect(revision == 9)
        }
    }

    @Test("a write that the server cannot decide is repeated", arguments: [10_008, 10_158, 10_163, 10_164, 10_167])
    func undecided(_ code: Int) async throws {
        try await withBucket { bucket, script in
            let undecided = Answer(payload: #"{"error":{"code":503,"err_code":\#(code)}}"#)
            script.set { number in number < 3 ? [undecided] : [Answer(payload: #"{"stream":"KV_devices","seq":7}"#)] }
            let revision = try await bucket.write([1], "a", expecting: 1)
            #expect(revision == 7)
        }
    }

    @Test("malformed answers to a read are refused")
    func reads() async throws {
        let subject = "$KV.devices.a"
        @Sendable func headers(_ stream: String, _ subject: String, _ sequence: String) -> NATSHeaders {
            ["Nats-Stream": stream, "Nats-Subject": subject, "Nats-Sequence": sequence]
        }
        let answers: [NATSHeaders] = [
            [:], headers("KV_other", subject, "1"), headers("KV_devices", "$KV.devices.b", "1"),
            headers("KV_devices", "$KV.devices.>", "1"), headers("KV_devices", subject, "0"),
            headers("KV_devices", subject, "\(UInt64(1) << 62)"), headers("KV_devices", subject, "x"),
            headers("KV_devices", subject, "18446744073709551616"), headers("KV_devices", subject, ""),
            ["Nats-Stream": "KV_devices", "Nats-Subject": subject],
        ]
        try await withBucket { bucket, script in
            for answer in answers {
                script.set { _ in [Answer(headers: answer)] }
                await #expect(throws: NATSError(.protocolError, "")) { _ = try await bucket.get("a") }
            }
            script.set { _ in [Answer(headers: headers("KV_devices", subject, "\((UInt64(1) << 62) - 1)"))] }
            let largest = try await bucket.get("a")
            #expect(largest?.revision == (1 << 62) - 1)
            // A message before the requested one would be read again and again.
            script.set { _ in [Answer(headers: headers("KV_devices", subject, "4"))] }
            await #expect(throws: NATSError(.protocolError, "")) {
                _ = try await bucket.stream.next(from: 5, filter: subject)
            }
            script.set { _ in [Answer(headers: ["Status": "408", "Description": "Bad Request"])] }
            await #expect(throws: NATSError(.serverError, "", serverCode: 408)) { _ = try await bucket.get("a") }
        }
    }

    @Test("a watch refuses a malformed change, and starts again after a missing one")
    func watch() async throws {
        let created = #"{"name":"c","num_pending":1}"#
        try await withBucket { bucket, script in
            // The subject is not the subject of a key.
            script.set { _ in [Answer(payload: created), Answer(isDelivered: true, payload: "x")] }
            var changes = try bucket.watch().makeAsyncIterator()
            #expect(try await changes.next() == .started)
            await #expect(throws: NATSError(.protocolError, "")) { _ = try await changes.next() }
            #expect(try await changes.next() == nil)
        }
        try await withBucket { bucket, script in
            // The heartbeat of the first consumer shows that it has sent a value. The watch must not read the next message of this consumer.
            let missing = Answer(isDelivered: true, headers: ["Status": "100", "Nats-Last-Consumer": "1"])
            let ended = Answer(isDelivered: true, headers: ["Status": "409", "Description": "Consumer Deleted"])
            let empty = Answer(payload: #"{"name":"c","num_pending":0}"#)
            script.set { number in
                [
                    [Answer(payload: created), missing, Answer(isDelivered: true, payload: "x")],
                    [Answer(payload: created), ended], [empty],
                ][min(number, 3) - 1]
            }
            var changes = try bucket.watch().makeAsyncIterator()
            for _ in 0..<3 { #expect(try await changes.next() == .started) }
            #expect(try await changes.next() == .snapshotEnded)
        }
        for answer in ["{}", #"{"name":"c","num_pending":-1}"#, #"{"error":{"code":404,"err_code":10059}}"#] {
            try await withBucket { bucket, script in
                script.set { _ in [Answer(payload: answer)] }
                var changes = try bucket.watch().makeAsyncIterator()
                let error = await #expect(throws: NATSError.self) { _ = try await changes.next() }
                #expect(error?.code == (answer.contains("error") ? .notFound : .protocolError))
            }
        }
    }

    @Test("the numbers of a delivered message are read in the old and the new form")
    func positions() throws {
        let old = try #require(DeliveryPosition("$JS.ACK.KV_a.c.1.22.333.1700000000000000000.4"))
        #expect(old.stream == 22 && old.consumer == 333 && old.pending == 4)
        let new = "$JS.ACK._.hash.KV_a.c.1.22.333.1700000000000000000.4"
        #expect(DeliveryPosition(new) == old && DeliveryPosition(new + ".random") == old)
        for text in [nil, "", "$JS.ACK", "$JS.NAK.KV_a.c.1.22.333.0.4", "$JS.ACK.KV_a.c.1.22.333.0.4.5", "........"] {
            #expect(DeliveryPosition(text) == nil)
        }
    }

    /// Runs `body` with a bucket on a server without JetStream, where another client answers in the place of JetStream.
    private func withBucket(_ body: @Sendable (KeyValueBucket, Script) async throws -> Void) async throws {
        try await TestServer.run(.newest, hasJetStream: false) { server in
            try await NATSClient.withClient(server.options) { hostile in
                let script = Script()
                let all = [try await hostile.subscribe("$JS.API.>"), try await hostile.subscribe("$KV.devices.>")]
                let tasks = all.map { requests in
                    Task { for try await request in requests { try await script.answer(request, hostile) } }
                }
                defer { for task in tasks { task.cancel() } }
                await #expect(throws: NATSError(.noResponders, "")) { _ = try await hostile.request("nobody") }
                try await NATSClient.withClient(server.options) { client in
                    try await body(try KeyValueBucket("devices", client), script)
                }
            }
        }
    }
}

/// A message of the hostile server.
private struct Answer: Sendable {
    /// Whether the message goes to the watch. Otherwise it is the answer to the request.
    var isDelivered = false
    var headers = NATSHeaders()
    var payload = ""
}

/// The answers of the hostile server.
private final class Script: Sendable {
    private struct State: Sendable {
        var answers: @Sendable (Int) -> [Answer] = { _ in [] }
        var requests = 0
    }

    private let state = Guarded(State())

    /// Sets the answers to the following requests. The argument is the number of the request; the first one has the number 1.
    func set(_ answers: @escaping @Sendable (Int) -> [Answer]) { state.with { $0 = State(answers: answers) } }

    func answer(_ request: NATSMessage, _ client: NATSClient) async throws {
        guard let reply = request.reply else { return }
        let answers = state.with { state in
            state.requests += 1
            return state.answers(state.requests)
        }
        for answer in answers {
            let text = String(decoding: request.payload, as: UTF8.self)
            let delivery = text.split(separator: #""deliver_subject":""#).last?.prefix { $0 != "\"" }
            let subject = answer.isDelivered ? String(delivery ?? "") : reply
            try await client.publish(subject, headers: answer.headers, Array(answer.payload.utf8))
        }
    }
}
