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

    private func write(_ bytes: [UInt8], to path: FilePath) throws {
        let file = try FileDescriptor.open(
            path, .writeOnly, options: [.create, .truncate], permissions: [.ownerReadWrite])
        try file.closeAfter { _ = try file.writeAll(bytes) }
    }
}
