import Glibc
import OTAFirmware
import OTAFleet
import OTASigning
import OTATestSupport
import SystemPackage
import Testing

@Suite("Limits of operators' keys") struct OperatorScopeTests {
    @Test("the demo key is not an operator, unless this is allowed")
    func demoKey() throws {
        let pem = try Repository.contents(of: Repository.keys.appending("otaflash-demo.pem"))
        let demo = try PrivateKey(pem: SecretBytes(copying: pem))
        #expect(demo.publicKey.id == DemoKey.id)
        let trust = try TrustStore([demo.publicKey])
        let rollout = try Fixtures().rollout()
        let record = try SignedRecord(signing: rollout, with: demo).encoded()
        #expect(throws: FleetError(.untrusted, "")) { try OperatorKeys(trust).rollout(record) }
        #expect(throws: FleetError(.untrusted, "")) { try OperatorKeys(trust).sign(rollout, with: demo) }
        #expect(try OperatorKeys(trust, allowsDemoKey: true).rollout(record).value == rollout)
    }

    @Test("a scope file limits an operator's key to releases and rollouts of a product")
    func scope() throws {
        var template = Array("/tmp/otaflash-fleet-XXXXXX".utf8CString)
        let folder = FilePath(try #require(mkdtemp(&template).map { String(cString: $0) }))
        defer { for name in ["a.pub.pem", "a.pub.pem.scope", ""] { remove(folder.appending(name).string) } }
        let fixtures = try Fixtures()
        let key = try fixtures.operatorKey.publicKey.pem().withUnsafeBytes { Array($0) }
        try write(key, to: folder.appending("a.pub.pem"))
        let rollout = try fixtures.rollout()
        let record = try SignedRecord(signing: rollout, with: fixtures.operatorKey).encoded()
        for (scope, isAccepted) in [
            ("product = acme-thermostat", true), ("product = acme-sensor", false), ("format = mcuboot", false),
        ] {
            try write(Array(scope.utf8), to: folder.appending("a.pub.pem.scope"))
            let operators = OperatorKeys(try TrustStore(paths: [folder]))
            if isAccepted {
                #expect(try operators.rollout(record).value == rollout)
                #expect(try operators.sign(rollout, with: fixtures.operatorKey).payload == rollout.payload())
            } else {
                #expect(throws: FleetError(.untrusted, ""), "\(scope)") { try operators.rollout(record) }
                #expect(throws: FleetError(.untrusted, "")) { try operators.sign(rollout, with: fixtures.operatorKey) }
            }
        }
    }

    @Test("a key that counts only with its partner, and an ML-DSA key, are not operators")
    func pairs() throws {
        var template = Array("/tmp/otaflash-fleet-XXXXXX".utf8CString)
        let folder = FilePath(try #require(mkdtemp(&template).map { String(cString: $0) }))
        let names = ["a.pub.pem", "a.pub.pem.scope", "b.pub.pem", "b.pub.pem.scope"]
        defer { for name in names + [""] { remove(folder.appending(name).string) } }
        let fixtures = try Fixtures()
        let key = fixtures.operatorKey.publicKey
        let partner = try PublicKey(algorithm: .mlDSA65, bytes: [UInt8](repeating: 7, count: 1952))
        try write(key.pem().withUnsafeBytes { Array($0) }, to: folder.appending("a.pub.pem"))
        try write(partner.pem().withUnsafeBytes { Array($0) }, to: folder.appending("b.pub.pem"))
        let rollout = try fixtures.rollout()
        let record = try SignedRecord(signing: rollout, with: fixtures.operatorKey).encoded()
        #expect(try OperatorKeys(TrustStore(paths: [folder])).rollout(record).value == rollout)
        try write(Array("with = \(partner.id)".utf8), to: folder.appending("a.pub.pem.scope"))
        try write(Array("with = \(key.id)".utf8), to: folder.appending("b.pub.pem.scope"))
        let operators = OperatorKeys(try TrustStore(paths: [folder]))
        #expect(throws: FleetError(.untrusted, "")) { try operators.rollout(record) }

        struct Other: Signer {
            let publicKey: PublicKey
            func sign(_ message: [UInt8], in domain: SignatureDomain) throws(KeyError) -> [UInt8] { [] }
        }
        let error = #expect(throws: FleetError(.signingFailed, "")) {
            try SignedRecord(signing: rollout, with: Other(publicKey: partner))
        }
        #expect(error?.context.contains("a fleet record requires Ed25519") == true)
    }

    private func write(_ bytes: [UInt8], to path: FilePath) throws {
        let file = try FileDescriptor.open(
            path, .writeOnly, options: [.create, .truncate], permissions: [.ownerReadWrite])
        try file.closeAfter { _ = try file.writeAll(bytes) }
    }
}
