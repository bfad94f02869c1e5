import OTASigning
import OTATestSupport
import SystemPackage
import Testing

@Suite("The demo key in keys/") struct DemoKeyTests {
    private let keys = Repository.keys

    @Test("the demo key ID is that of keys/otaflash-demo.pub.pem")
    func theIDIsTheOneOfTheKeyInKeys() throws {
        #expect(try KeyFile.publicKey(at: keys.appending("otaflash-demo.pub.pem")).id == DemoKey.id)
    }

    @Test("the private key file has the same ID as the public one")
    func bothHalvesBelongTogether() throws {
        let pem = SecretBytes(copying: try contents(of: keys.appending("otaflash-demo.pem")))
        #expect(try PrivateKey(pem: pem).publicKey.id == DemoKey.id)
    }

    @Test("both files start with the text DEMO KEY.")
    func theyAreMarked() throws {
        for name in ["otaflash-demo.pem", "otaflash-demo.pub.pem"] {
            let text = String(decoding: try contents(of: keys.appending(name)), as: UTF8.self)
            #expect(text.hasPrefix("DEMO KEY."), "\(name)")
        }
    }
}
