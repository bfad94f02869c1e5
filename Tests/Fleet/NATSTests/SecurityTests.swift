import NATS
import NATSTestSupport
import OTATestSupport
import SystemPackage
import Testing

@Suite("Security of NATS connections")
struct SecurityTests {
    @Test(
        "a publication that is not permitted fails at once with permission-denied",
        arguments: TestServer.Version.allCases)
    func permissions(_ version: TestServer.Version) async throws {
        try await TestServer.run(version, Self.users) { server in
            try await NATSClient.withClient(server.options(user: "operator")) { client in
                let bucket = try KeyValueBucket("devices", client)
                try await bucket.create()
                _ = try await bucket.write([1], "a", expecting: 0)
            }
            var options = server.options(user: "gateway")
            options.inboxPrefix = "_INBOX_gateway"
            try await NATSClient.withClient(options) { client in
                let devices = try KeyValueBucket("devices", client)
                _ = try await devices.write([2], "b", expecting: 0)
                let rollouts = try KeyValueBucket("rollouts", client)
                await #expect(throws: NATSError(.permissionDenied, "")) {
                    _ = try await rollouts.write([1], "a", expecting: 0)
                }
                await #expect(throws: NATSError(.permissionDenied, "")) { try await devices.create() }
                await #expect(throws: NATSError(.permissionDenied, "")) { _ = try await devices.keys() }
                var others = try await client.subscribe("_INBOX_other.>").makeAsyncIterator()
                await #expect(throws: NATSError(.permissionDenied, "")) { _ = try await others.next() }
                #expect(try await devices.get("a")?.value == [1])
            }
        }
    }

    @Test(
        "an inbox prefix that the user may not subscribe to is reported when the connection opens",
        arguments: TestServer.Version.allCases)
    func inbox(_ version: TestServer.Version) async throws {
        try await TestServer.run(version, Self.users) { server in
            await #expect(throws: NATSError(.permissionDenied, "")) {
                _ = try await NATSClient.open(server.options(user: "gateway"))
            }
        }
    }

    @Test("a permission that is withdrawn during a connection is reported", arguments: TestServer.Version.allCases)
    func lostPermission(_ version: TestServer.Version) async throws {
        try await TestServer.run(version) { server in
            try server.reload(Self.users)
            var options = server.options(user: "gateway")
            options.inboxPrefix = "_INBOX_gateway"
            let client = try await openWhenReloaded(options)
            let devices = try KeyValueBucket("devices", client)
            await #expect(throws: NATSError(.noResponders, "")) { _ = try await devices.write([1], "a", expecting: 0) }
            try server.reload(Self.users.replacing("\"$KV.devices.>\"", with: "\"$KV.others.>\""))
            var code = NATSError.Code.noResponders
            while code != .permissionDenied {
                do throws(NATSError) { _ = try await devices.write([1], "a", expecting: 0) } catch {
                    code = error.code
                    try #require(
                        [.noResponders, .permissionDenied, .notConnected, .disconnected].contains(code), "\(error)")
                }
            }
            await client.close()
        }
    }

    @Test("a user that is removed during a connection ends the connection with authorization-failed")
    func removedUser() async throws {
        try await TestServer.run(.newest) { server in
            try server.reload(Self.users)
            let client = try await openWhenReloaded(server.options(user: "operator"))
            try server.reload(Self.users.replacing("user: operator", with: "user: somebody"))
            var last: NATSConnectionState?
            for await state in client.states() { last = state }
            #expect(last == .closed(NATSError(.authorizationFailed, "")))
            await #expect(throws: NATSError(.authorizationFailed, "")) { _ = try await client.request("a") }
            await client.close()
        }
    }

    @Test(
        "TLS requires a certificate of the given CA for the name of the server", arguments: TestServer.Version.allCases)
    func certificates(_ version: TestServer.Version) async throws {
        try await TemporaryFolder.run { folder in
            try await makeCertificates(folder)
            let settings = #"tls { cert_file: "FOLDER/server.pem", key_file: "FOLDER/server.key" }"#
            try await TestServer.run(version, in: folder, settings) { server in
                var options = server.options
                options.servers = ["tls://localhost:\(server.port)"]
                options.certificateAuthority = folder.appending("ca.pem").string
                try await NATSClient.withClient(options) { client in
                    await #expect(throws: NATSError(.noResponders, "")) { _ = try await client.request("nobody") }
                }
                options.certificateAuthority = folder.appending("other-ca.pem").string
                await #expect(throws: NATSError(.tlsFailed, "")) { _ = try await NATSClient.open(options) }
                options.certificateAuthority = nil
                await #expect(throws: NATSError(.tlsFailed, "")) { _ = try await NATSClient.open(options) }
                options.certificateAuthority = folder.appending("ca.pem").string
                options.servers = ["tls://127.0.0.1:\(server.port)"]
                await #expect(throws: NATSError(.tlsFailed, "")) { _ = try await NATSClient.open(options) }
                options.certificateAuthority = folder.appending("missing.pem").string
                await #expect(throws: NATSError(.invalidArguments, "")) { _ = try await NATSClient.open(options) }
            }
        }
    }

    @Test(
        "a server that waits for the TLS handshake first is reported, and a server that also accepts other clients works",
        arguments: [("true", true), ("auto", false)])
    func handshakeFirst(setting: String, isRefused: Bool) async throws {
        try await TemporaryFolder.run { folder in
            try await makeCertificates(folder)
            let settings =
                "tls { cert_file: \"FOLDER/server.pem\", key_file: \"FOLDER/server.key\", handshake_first: \(setting) }"
            try await TestServer.run(.newest, in: folder, settings) { server in
                var options = server.options
                options.servers = ["tls://localhost:\(server.port)"]
                options.certificateAuthority = folder.appending("ca.pem").string
                if isRefused {
                    await #expect(throws: NATSError(.noServerInformation, "")) {
                        _ = try await NATSClient.open(options)
                    }
                } else {
                    try await NATSClient.withClient(options) { client in
                        await #expect(throws: NATSError(.noResponders, "")) { _ = try await client.request("nobody") }
                    }
                }
            }
        }
    }

    @Test("a server that requires a certificate of the client is named as a possible cause")
    func clientCertificate() async throws {
        try await TemporaryFolder.run { folder in
            try await makeCertificates(folder)
            let settings =
                #"tls { cert_file: "FOLDER/server.pem", key_file: "FOLDER/server.key", ca_file: "FOLDER/ca.pem", verify: true }"#
            try await TestServer.run(.newest, in: folder, settings) { server in
                var options = server.options
                options.servers = ["tls://localhost:\(server.port)"]
                options.certificateAuthority = folder.appending("ca.pem").string
                let error = await #expect(throws: NATSError(.connectionFailed, "")) {
                    _ = try await NATSClient.open(options)
                }
                #expect(error?.cause?.contains("verify: true") == true)
            }
        }
    }

    @Test("a tls address does not connect to a server without TLS")
    func plainServer() async throws {
        try await TestServer.run(.newest) { server in
            var options = server.options
            options.servers = ["tls://localhost:\(server.port)"]
            await #expect(throws: NATSError(.tlsFailed, "")) { _ = try await NATSClient.open(options) }
        }
    }

    @Test("an NKey seed proves the user's identity, and another seed does not", arguments: TestServer.Version.allCases)
    func seeds(_ version: TestServer.Version) async throws {
        try await TemporaryFolder.run { folder in
            let file = folder.appending("user.nk").string
            let key = try await Peer.run(["key", file])
            try await TestServer.run(version, in: folder, "authorization { timeout: 30, users: [{ nkey: \(key) }] }") {
                server in
                var options = server.options
                options.credentials = file
                try await NATSClient.withClient(options) { client in
                    await #expect(throws: NATSError(.noResponders, "")) { _ = try await client.request("nobody") }
                }
                let other = folder.appending("other.nk").string
                _ = try await Peer.run(["key", other])
                options.credentials = other
                await #expect(throws: NATSError(.authorizationFailed, "")) { _ = try await NATSClient.open(options) }
                options.credentials = nil
                await #expect(throws: NATSError(.authorizationFailed, "")) { _ = try await NATSClient.open(options) }
                for text in ["", "SUAX", key, "SU" + String(repeating: "A", count: 56)] {
                    try folder.appending("other.nk").write(text)
                    options.credentials = other
                    await #expect(throws: NATSError(.invalidArguments, "")) { _ = try await NATSClient.open(options) }
                }
            }
        }
    }

    @Test("a login is repeated if the first byte of its signature is 0, which libnats 3.4 does not send")
    func unusableSignature() async throws {
        try await Peer.withLoginServer(["zero", "zero", "other"]) { options in
            try await NATSClient.open(options).close()
        }
        // A server with this nonce each time is given up.
        try await Peer.withLoginServer(["zero"]) { options in
            await #expect(throws: NATSError(.connectionFailed, "")) { _ = try await NATSClient.open(options) }
        }
    }

    @Test("an interrupted connection is restored if the first bytes of the next signatures are 0")
    func unusableSignatureAfterLoss() async throws {
        try await Peer.withLoginServer(["other", "zero", "zero", "zero", "other"]) { options in
            let client = try await NATSClient.open(options)
            var states = client.states().makeAsyncIterator()
            #expect(await states.next() == .connected)
            try await client.publish("end")
            #expect(await states.next() == .reconnecting)
            #expect(await states.next() == .connected)
            await client.close()
        }
    }

    @Test(
        "a login that is late, or during which the server ends, counts as a failed connection",
        arguments: ["late", "end", "part", "tls"])
    func interruptedLogin(kind: String) async throws {
        try await Peer.withLoginServer([kind]) { options in
            var options = options
            if kind == "tls" { options.servers = options.servers.map { $0.replacing("nats://", with: "tls://") } }
            await #expect(throws: NATSError(.connectionFailed, "")) { _ = try await NATSClient.open(options) }
        }
    }

    @Test("a server that does not answer a login or a TLS handshake is given up", arguments: ["mute", "mute-tls"])
    func unansweredLogin(kind: String) async throws {
        try await Peer.withLoginServer([kind]) { options in
            var options = options
            if kind == "mute-tls" { options.servers = options.servers.map { $0.replacing("nats://", with: "tls://") } }
            (options.connectTimeout, options.pingInterval) = (.milliseconds(100), .milliseconds(100))
            // The server does not end the connection.
            await #expect(throws: NATSError(.connectionFailed, "")) { _ = try await NATSClient.open(options) }
        }
    }

    @Test(
        "a program that sends another first message than a NATS server, or none, is reported",
        arguments: ["ssh", "silent"])
    func otherProgram(kind: String) async throws {
        try await Peer.withLoginServer([kind]) { options in
            await #expect(throws: NATSError(.noServerInformation, "")) { _ = try await NATSClient.open(options) }
        }
    }

    @Test("expired credentials are refused, and end an open connection", arguments: TestServer.Version.allCases)
    func expiry(_ version: TestServer.Version) async throws {
        try await TemporaryFolder.run { folder in
            _ = try await Peer.run(["operator", folder.string])
            let settings = String(decoding: try folder.appending("operator.conf").contents(), as: UTF8.self)
            try await TestServer.run(version, in: folder, hasJetStream: false, settings) { server in
                var options = server.options
                options.credentials = folder.appending("user.creds").string
                // The server must be ready before the time of the credentials begins: its start can take longer than 10 s.
                _ = try await Peer.run(["credentials", folder.string, "10"])
                let client = try await NATSClient.open(options)
                var last: NATSConnectionState?
                for await state in client.states() { last = state }
                #expect(last == .closed(NATSError(.authorizationFailed, "")))
                await client.close()
                // In the second of the expiry, the server can accept a connection and end it at once.
                var code = NATSError.Code.connectionFailed
                while code == .connectionFailed {
                    do throws(NATSError) { await (try NATSClient.open(options)).close() } catch { code = error.code }
                }
                #expect(code == .authorizationFailed)
            }
        }
    }

    /// An operator who may do everything, and a gateway that may write devices and read all buckets.
    static let users = """
        authorization {
          users: [
            { user: operator, password: secret }
            { user: gateway, password: secret, permissions: {
                publish: ["$KV.devices.>", "$JS.API.DIRECT.GET.>"], subscribe: ["_INBOX_gateway.>"] } }
          ]
        }
        """

    /// Opens a connection. Until the server has read its new settings, it accepts connections without a user, or refuses the user.
    private func openWhenReloaded(_ options: NATSOptions) async throws -> NATSClient {
        var anonymous = options
        anonymous.servers = options.servers.map { "nats://" + ($0.split(separator: "@").last ?? "") }
        anonymous.inboxPrefix = "_INBOX"
        while let client = try? await NATSClient.open(anonymous) { await client.close() }
        return try await NATSClient.open(options)
    }

    private func makeCertificates(_ folder: FilePath) async throws {
        let script = """
            set -e
            for name in ca other-ca; do
                openssl req -x509 -newkey rsa:2048 -nodes -keyout $name.key -out $name.pem -days 2 -subj "/CN=$name"
            done
            openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj "/CN=localhost"
            printf 'subjectAltName=DNS:localhost' >names
            openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile names
            """
        let result = try await Command.run("/bin/sh", ["-c", script], in: folder)
        try #require(result.succeeded, "\(result.errorText)")
    }
}

extension TestServer {
    fileprivate func options(user: String) -> NATSOptions {
        var options = options
        options.servers = ["nats://\(user):secret@localhost:\(port)"]
        return options
    }
}

extension FilePath {
    fileprivate func contents() throws -> [UInt8] {
        let file = try FileDescriptor.open(self, .readOnly)
        return try file.closeAfter {
            try [UInt8](unsafeUninitializedCapacity: 1 << 16) { buffer, count in
                count = try file.read(into: UnsafeMutableRawBufferPointer(buffer))
            }
        }
    }
}
