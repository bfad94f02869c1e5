import OTAFirmware
import OTASigning
import OTATestSupport
import SystemPackage
import Testing

@Suite("Conditions of a trust policy") struct TrustPolicyTests {
    private let key: PrivateKey

    init() throws { key = try RFC8032.test1.privateKey() }

    private func verify(_ bundle: SignedBundle, _ policy: TrustPolicy) throws -> VerifiedBundle {
        try Verifier(trust: TrustStore([key.publicKey]), policy: policy).verify(bundle)
    }

    @Test("a policy with a product accepts only bundles for exactly this product")
    func asksForTheProduct() throws {
        let bundle = try makeBundle(signedBy: [key])
        #expect(throws: Never.self) { try verify(bundle, TrustPolicy(product: ProductName("demo"))) }
        for other in ["Demo", "demo2", "dem"] {
            #expect(throws: VerificationError(.wrongProduct, "")) {
                try verify(bundle, TrustPolicy(product: ProductName(other)))
            }
        }
    }

    @Test("a policy with a hardware revision accepts only bundles for this revision or for all")
    func asksForTheHardware() throws {
        let bundle = try makeBundle(hardware: 2...3, signedBy: [key])
        for (revision, fits) in [(1, false), (2, true), (3, true), (4, false)] as [(UInt16, Bool)] {
            let policy = TrustPolicy(hardware: revision)
            if fits {
                #expect(throws: Never.self) { try verify(bundle, policy) }
            } else {
                #expect(throws: VerificationError(.wrongHardware, "")) { try verify(bundle, policy) }
            }
        }
        let any = try makeBundle(hardware: nil, signedBy: [key])
        #expect(throws: Never.self) { try verify(any, TrustPolicy(hardware: 65535)) }
    }

    @Test("a bundle below the minimum security counter is refused, an equal counter is accepted")
    func asksForTheSecurityCounter() throws {
        let bundle = try makeBundle(counter: 7, signedBy: [key])
        #expect(throws: Never.self) { try verify(bundle, TrustPolicy(minimumSecurityCounter: 7)) }
        #expect(throws: VerificationError(.counterTooLow, "")) {
            try verify(bundle, TrustPolicy(minimumSecurityCounter: 8))
        }
    }

    @Test("a bundle is refused if the running version is below the required version")
    func asksForTheRunningVersion() throws {
        let bundle = try makeBundle(requires: RequiredVersion(major: 1, minor: 10, patch: 0), signedBy: [key])
        #expect(throws: Never.self) { try verify(bundle, TrustPolicy()) }
        for version in ["1.10.0", "1.10.0-rc.1", "2.0.0"] {
            #expect(throws: Never.self) { try verify(bundle, TrustPolicy(runningVersion: SemanticVersion(version))) }
        }
        for version in ["1.9.99", "0.99.0"] {
            #expect(throws: VerificationError(.requiresNewer, "")) {
                try verify(bundle, TrustPolicy(runningVersion: SemanticVersion(version)))
            }
        }
    }

    @Test("a bundle signed only by the demo key is refused unless the policy allows the demo key")
    func theDemoKeyAloneIsNotEnough() throws {
        let demo = try PrivateKey(
            pem: SecretBytes(copying: contents(of: Repository.keys.appending("otaflash-demo.pem"))))
        let trust = try TrustStore([demo.publicKey, key.publicKey])
        let strict = Verifier(trust: trust)
        let lenient = Verifier(trust: trust, policy: TrustPolicy(allowsDemoKey: true))
        let bundle = try makeBundle(signedBy: [demo])
        #expect(throws: VerificationError(.demoKey, "")) { try strict.verify(bundle) }
        #expect(try lenient.verify(bundle).signers == [demo.publicKey.id])
        #expect(
            try Set(strict.verify(makeBundle(signedBy: [demo, key])).signers) == [demo.publicKey.id, key.publicKey.id])
        #expect(throws: VerificationError(.untrustedKey, "")) {
            try Verifier(trust: TrustStore([key.publicKey]), policy: lenient.policy).verify(bundle)
        }
    }

    @Test("a bundle is checked in this order: critical fields, signatures, image digest, policy")
    func theOrderIsFieldsSignaturesImagePolicy() throws {
        let policy = TrustPolicy(
            product: ProductName("other"), hardware: 9, minimumSecurityCounter: 9,
            runningVersion: SemanticVersion("0.0.1"))
        let requires = RequiredVersion(major: 1, minor: 0, patch: 0)
        let critical = ManifestField(type: 0x8009, value: [])
        func code(_ bundle: SignedBundle) throws -> VerificationError.Code? {
            try #require(throws: VerificationError.self) { try verify(bundle, policy) }.code
        }
        let spoiled = { (bundle: SignedBundle) in
            try SignedBundle(envelope: bundle.envelope, image: [UInt8](repeating: 1, count: bundle.image.count))
        }
        var bundle = try makeBundle(requires: requires, unknownFields: [critical], signedBy: [key])
        #expect(try code(spoiled(bundle.spoiling(signatureBy: key))) == .unknownCriticalField)
        bundle = try makeBundle(requires: requires, signedBy: [key])
        #expect(try code(spoiled(bundle.spoiling(signatureBy: key))) == .badSignature)
        #expect(try code(spoiled(bundle)) == .digestMismatch)
        #expect(try code(bundle) == .wrongProduct)
    }
}
