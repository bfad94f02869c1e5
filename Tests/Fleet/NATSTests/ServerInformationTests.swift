import NATS
import Testing

@Suite("The information of a NATS server before the login") struct ServerInformationTests {
    private func read(_ line: String) throws -> ServerInformation { try ServerInformation(parsing: Array(line.utf8)) }

    @Test("the line INFO of nats-server is read; an empty name of a cluster counts as none")
    func lines() throws {
        let line =
            #"INFO {"server_id":"N","version":"2.9.10","max_payload":1048576,"jetstream":true,"cluster":"c1"} "# + "\r"
        let server = try read(line)
        #expect(server.version == "2.9.10" && server.cluster == "c1")
        #expect(server.hasJetStream && server.maximumPayload == 1_048_576)
        let alone = try read(#"INFO {"version":"2.15.1","max_payload":0,"cluster":""}"#)
        #expect(alone.cluster == nil && !alone.hasJetStream && alone.maximumPayload == 0)
    }

    @Test(
        "another line, or a value out of its range, is malformed",
        arguments: [
            "+OK", "INFO {}", "INFO", #"{"version":"2.9.10","max_payload":1}"#,
            #"INFO {"version":"2","max_payload":-1}"#,
            #"INFO {"version":"2","max_payload":1.5}"#, #"INFO {"version":2,"max_payload":1}"#,
        ])
    func malformed(line: String) {
        #expect { try read(line) } throws: { ($0 as? NATSError)?.code == .protocolError }
    }

    @Test("the host and the port of an address; the default port is 4222")
    func addresses() {
        let expected = [
            "nats://host": "host 4222", "tls://user:p@ss@host:1/x": "host 1", "nats://[fe80::1]:7": "fe80::1 7",
            "nats://[::1]": "::1 4222", "nats://": nil, "nats://:4222": nil, "nats://[]:4222": nil, "host:4222": nil,
        ]
        for (address, text) in expected {
            let endpoint = ServerInformation.endpoint(of: address)
            #expect(endpoint.map { "\($0.host) \($0.port)" } == text, "\(address)")
        }
    }
}
