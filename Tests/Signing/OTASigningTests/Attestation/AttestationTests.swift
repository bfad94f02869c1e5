import OTAFirmware
import OTASigning
import OTATestSupport
import SystemPackage
import Testing

@Suite("Attestations: envelopes, statements and their verification") struct AttestationTests {
    private let key: PrivateKey
    private let bundle: VerifiedBundle

    init() throws {
        key = try PrivateKey(seed: [UInt8](repeating: 7, count: 32))
        let folder = try TemporaryFolder()
        let image = try folder.write("fw.bin", [UInt8](1...200))
        let release = Release(product: ProductName("demo"), version: SemanticVersion("1.0.0"))
        let path = folder.path.appending("fw.otaf")
        _ = try BundleSigner(keys: [key]).sign(image, as: release, created: 0, to: path)
        bundle = try Verifier(trust: TrustStore([key.publicKey])).verify(SignedBundle(parsing: contents(of: path)))
    }

    private func statement(_ subjects: [Statement.Subject]? = nil) -> Statement {
        Statement(
            subjects: subjects ?? bundle.bundle.subjects(named: "fw.otaf"), predicateType: "urn:test",
            predicate: .object([JSON.Member("a", .number("1"))]))
    }

    private func file(_ lines: [UInt8]...) throws -> AttestationFile {
        try AttestationFile(parsing: Array(lines.joined(separator: [UInt8(ascii: "\n")])))
    }

    private func verify(
        _ file: AttestationFile, _ keys: [PublicKey]? = nil, policy: TrustPolicy = TrustPolicy()
    ) throws -> [VerifiedAttestation] {
        try Verifier(trust: TrustStore(keys ?? [key.publicKey]), policy: policy).verify(file, of: bundle)
    }

    private func code(_ body: () throws -> Void) -> AttestationError.Code? {
        do {
            try body()
            return nil
        } catch {
            return (error as? AttestationError)?.code
        }
    }

    /// An envelope with the given JSON members in place of the usual ones; nil removes a member.
    private func envelope(_ changes: [String: JSON?]) throws -> [UInt8] {
        let line = try AttestationEnvelope(signing: statement(), with: [key]).line
        var members = try #require(try JSON(parsing: line[...]).members)
        for (name, value) in changes {
            members.removeAll { $0.name == name }
            if let value { members.append(JSON.Member(name, value)) }
        }
        return JSON.object(members).text
    }

    @Test("the envelope of a trusted key is accepted, and its statement is returned")
    func accepts() throws {
        let envelope = try AttestationEnvelope(signing: statement(), with: [key])
        let parsed = try AttestationEnvelope(parsing: envelope.line[...])
        #expect(parsed == envelope)
        let verified = try verify(file(envelope.line, envelope.line))
        #expect(verified.map(\.match) == [.bundle, .bundle])
        #expect(verified.first?.statement == statement() && verified.first?.signers == [key.publicKey.id])
    }

    @Test("one changed bit in any byte of the payload or of the signature is refused")
    func refusesEveryChangedByte() throws {
        let envelope = try AttestationEnvelope(signing: statement(), with: [key])
        func base64(_ bytes: [UInt8]) -> JSON { .string(OTASigningTests.base64(bytes)) }
        for index in envelope.payload.indices {
            var payload = envelope.payload
            payload[index] ^= 1
            let line = try self.envelope(["payload": base64(payload)])
            #expect(code { _ = try verify(file(line)) } == .badSignature, "\(index)")
        }
        let signature = try #require(envelope.signatures.first)
        for index in signature.bytes.indices {
            var bytes = signature.bytes
            bytes[index] ^= 0x10
            let item = JSON.object([
                JSON.Member("keyid", .string(key.publicKey.id.description)), JSON.Member("sig", base64(bytes)),
            ])
            let line = try self.envelope(["signatures": .array([item])])
            #expect(code { _ = try verify(file(line)) } == .badSignature, "\(index)")
        }
    }

    @Test("the key id is only a hint: another or a missing key id does not change the result")
    func ignoresTheKeyID() throws {
        let other = try PrivateKey(seed: [UInt8](repeating: 8, count: 32)).publicKey
        let signature = try #require(try AttestationEnvelope(signing: statement(), with: [key]).signatures.first)
        let sig = JSON.Member("sig", .string(base64(signature.bytes)))
        for id in [nil, "anything", other.id.description] {
            let item = JSON.object((id.map { [JSON.Member("keyid", .string($0))] } ?? []) + [sig])
            let line = try envelope(["signatures": .array([item])])
            #expect(try verify(file(line)).first?.signers == [key.publicKey.id])
            // The trusted key `other` did not sign. The key id in the envelope does not change that.
            #expect(
                code { _ = try verify(file(line), [other]) }
                    == (id == other.id.description ? .badSignature : .untrusted))
        }
    }

    @Test("among several signatures, one valid signature by a trusted key is enough")
    func severalSignatures() throws {
        let other = try PrivateKey(seed: [UInt8](repeating: 8, count: 32))
        let items = try [other, key].map { key in
            let line = try AttestationEnvelope(signing: statement(), with: [key]).line
            return try #require(try JSON(parsing: line[...])["signatures"]?.array?.first)
        }
        let broken = JSON.object([
            JSON.Member("keyid", .string(key.publicKey.id.description)),
            JSON.Member("sig", .string(base64([UInt8](repeating: 0, count: 64)))),
        ])
        let line = try envelope(["signatures": .array([broken] + items)])
        #expect(try verify(file(line)).first?.signers == [key.publicKey.id])
        #expect(try verify(file(line), [key.publicKey, other.publicKey]).first?.signers.count == 2)
        let many = try envelope(["signatures": .array([JSON](repeating: broken, count: 9))])
        #expect(code { _ = try file(many) } == .malformed)
    }

    @Test(
        "payload and signature may use the standard or the URL-safe alphabet, but not both, and not without padding",
        arguments: [
            ("+/8=", true), ("-_8=", true), ("+_8=", false), ("-/8=", false), ("-_8", false), ("-_9=", false),
            ("-_8=\n", false),
            (" -_8", false), ("====", false), ("-_=8", false), ("8===", false), ("", true), ("AAAA", true),
            ("AAAA====", false),
        ])
    func alphabets(text: String, isValid: Bool) throws {
        for line in [
            try envelope(["payload": .string(text)]),
            try envelope(["signatures": .array([.object([JSON.Member("sig", .string(text))])])]),
        ] {
            #expect(code { _ = try file(line) } == (isValid ? nil : .malformed), "\(text)")
        }
    }

    @Test("a malformed envelope is refused with the number of its line")
    func malformedEnvelopes() throws {
        let good = try AttestationEnvelope(signing: statement(), with: [key]).line
        let bad: [[UInt8]] = [
            [], Array("[]".utf8), Array("{}".utf8), Array(good.dropLast()), good + good,
            try envelope(["payload": nil]), try envelope(["payloadType": nil]), try envelope(["signatures": nil]),
            try envelope(["signatures": .array([])]), try envelope(["signatures": .array([.object([])])]),
            try envelope(["payload": .number("1")]), try envelope(["payloadType": .string("text/plain")]),
            // The same member twice: two readers could use different payloads.
            Array(good.dropLast()) + Array(#","payload":"e30="}"#.utf8),
        ]
        for line in bad {
            let error = #expect(throws: AttestationError.self) { _ = try file(good, line, good) }
            #expect(
                error?.code == .malformed && error?.context.hasPrefix("line 2: ") == true, "\(error?.context ?? "")")
        }
        #expect(code { _ = try file([]) } == .malformed)
        #expect(
            code { _ = try AttestationFile(parsing: [UInt8](repeating: 0x20, count: (32 << 20) + 1)) } == .malformed)
        let lines = [[UInt8]](repeating: good, count: AttestationFile.maximumCount + 1)
        #expect(code { _ = try AttestationFile(parsing: Array(lines.joined(separator: [0x0A]))) } == .malformed)
        #expect(
            try AttestationFile(parsing: Array(lines.dropLast().joined(separator: [0x0A])) + [0x0A]).envelopes.count
                == 64)
    }

    @Test("a statement must name the bundle or its manifest; its image alone is not enough")
    func subjects() throws {
        let all = bundle.bundle.subjects(named: "fw.otaf")
        let foreign = Statement.Subject(name: "other", digest: SHA256.digest(of: [1]))
        let cases: [([Statement.Subject], VerifiedAttestation.Match?)] = [
            ([all[0]], .bundle), ([all[2]], .manifest), ([foreign, all[0]], .bundle), ([all[1]], nil), ([foreign], nil),
        ]
        for (subjects, match) in cases {
            let line = try AttestationEnvelope(signing: statement(subjects), with: [key]).line
            if let match {
                #expect(try verify(file(line)).first?.match == match)
            } else {
                #expect(code { _ = try verify(file(line)) } == .differs)
            }
        }
    }

    @Test("one attestation of several that is about another file, or by another key, is enough to refuse all")
    func everyAttestationCounts() throws {
        let good = try AttestationEnvelope(signing: statement(), with: [key]).line
        let foreign = Statement.Subject(name: "other", digest: SHA256.digest(of: [1]))
        let differs = try AttestationEnvelope(signing: statement([foreign]), with: [key]).line
        let other = try PrivateKey(seed: [UInt8](repeating: 8, count: 32))
        let untrusted = try AttestationEnvelope(signing: statement(), with: [other]).line
        #expect(code { _ = try verify(file(good, differs)) } == .differs)
        #expect(code { _ = try verify(file(good, untrusted)) } == .untrusted)
    }

    @Test("a signed payload that is not an in-toto statement of version 1 is refused")
    func malformedStatements() throws {
        let digest = bundle.bundle.fileDigest
        let subject = #"{"name":"x","digest":{"sha256":"\#(digest)"}}"#
        let type = #""_type":"https://in-toto.io/Statement/v1""#
        func parse(_ text: String) -> AttestationError.Code? {
            code { _ = try Statement(parsing: Array(text.utf8)) }
        }
        #expect(parse(#"{\#(type),"subject":[\#(subject)],"predicateType":"t","predicate":{},"more":1}"#) == nil)
        #expect(parse(#"{\#(type),"subject":[\#(subject)],"predicateType":"t"}"#) == nil)
        for text in [
            "{}", "[]", "1", #"{\#(type),"predicateType":"t","predicate":{}}"#,
            #"{\#(type),"subject":[],"predicateType":"t","predicate":{}}"#,
            #"{\#(type),"subject":[\#(subject)],"predicate":{}}"#,
            #"{\#(type),"subject":[\#(subject)],"predicateType":"","predicate":{}}"#,
            #"{\#(type),"subject":[\#(subject)],"predicateType":"t","predicate":[]}"#,
            #"{"_type":"https://in-toto.io/Statement/v0.1","subject":[\#(subject)],"predicateType":"t","predicate":{}}"#,
            #"{\#(type),"subject":[{"name":"x"}],"predicateType":"t","predicate":{}}"#,
            #"{\#(type),"subject":[{"digest":{}}],"predicateType":"t","predicate":{}}"#,
            #"{\#(type),"subject":[{"digest":{"sha256":"12"}}],"predicateType":"t","predicate":{}}"#,
            #"{\#(type),"subject":[{"digest":{"sha256":1}}],"predicateType":"t","predicate":{}}"#,
            #"{\#(type),"subject":[\#(subject)],"subject":[\#(subject)],"predicateType":"t","predicate":{}}"#,
            #"{\#(type),"subject":[\#((0...1024).map { _ in subject }.joined(separator: ","))],"predicateType":"t","predicate":{}}"#,
        ] {
            #expect(parse(text) == .malformed, "\(text.prefix(200))")
        }
    }

    @Test("an attestation signed only by the demo key is refused unless the policy allows the demo key")
    func demoKey() throws {
        let demo = try PrivateKey(
            pem: SecretBytes(copying: contents(of: Repository.keys.appending("otaflash-demo.pem"))))
        let envelope = try file(AttestationEnvelope(signing: statement(), with: [demo]).line)
        let keys = [key.publicKey, demo.publicKey]
        #expect(code { _ = try verify(envelope, keys) } == .untrusted)
        #expect(
            try verify(envelope, keys, policy: TrustPolicy(allowsDemoKey: true)).first?.signers == [demo.publicKey.id])
    }

    @Test("a key whose scope does not cover the product cannot attest")
    func scope() throws {
        let folder = try TemporaryFolder()
        let path = folder.path.appending("k.pub.pem")
        let pem = try key.publicKey.pem().withUnsafeBytes { Array($0) }
        _ = try folder.write("k.pub.pem", pem)
        let envelope = try file(AttestationEnvelope(signing: statement(), with: [key]).line)
        for (scope, expected) in [("product = other\n", AttestationError.Code.untrusted), ("product = demo\n", nil)] {
            _ = try folder.write("k.pub.pem.scope", Array(scope.utf8))
            let trust = try TrustStore(paths: [path], filesAreChosen: true)
            #expect(code { _ = try Verifier(trust: trust).verify(envelope, of: bundle) } == expected)
        }
    }
}
