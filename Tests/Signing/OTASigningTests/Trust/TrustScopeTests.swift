import OTAFirmware
import OTASigning
import SystemPackage
import Testing

@Suite("Scope files of trusted keys") struct TrustScopeTests {
    private func scope(_ text: String) throws(KeyError) -> TrustScope {
        try TrustScope(parsing: Array(text.utf8), of: "k.pub.pem.scope")
    }

    private func covers(_ scope: TrustScope, _ product: String) throws -> Bool {
        scope.covers(try makeBundle(product: product, signedBy: [RFC8032.test1.privateKey()]).envelope.manifest)
    }

    @Test("a line product limits a key to bundles of exactly these products")
    func limitsProducts() throws {
        let scope = try scope("# ours\n\n  product =acme-thermostat ,  demo  ")
        #expect(try covers(scope, "demo") && covers(scope, "acme-thermostat"))
        for other in ["Demo", "dem", "demo2", "acme"] { #expect(try !covers(scope, other), "\(other)") }
        #expect(!scope.coversImages)
        #expect(scope.description == "bundles of acme-thermostat, demo")
    }

    @Test("a line format limits a key to bundles, MCUboot images or Nordic DFU packages")
    func limitsFormats() throws {
        let bundles = try scope("format = bundle\n")
        #expect(try covers(bundles, "any") && !bundles.coversImages && bundles.description == "bundles")
        let images = try scope("format = mcuboot\n")
        #expect(try !covers(images, "any") && images.coversImages && images.description == "MCUboot images")
        let both = try scope("format = mcuboot, bundle\n")
        #expect(try covers(both, "any") && both.coversImages)
        #expect(!both.coversNordicPackages && !bundles.coversNordicPackages && !images.coversNordicPackages)
        let packages = try scope("format = nordic-dfu\n")
        #expect(try !covers(packages, "any") && !packages.coversImages && packages.coversNordicPackages)
        #expect(packages.description == "Nordic DFU packages")
        #expect(both.description == "bundles and MCUboot images")
        let narrow = try scope("product = demo\nformat = bundle\n")
        #expect(try covers(narrow, "demo") && !covers(narrow, "other") && !narrow.coversImages)
    }

    @Test(
        "an unknown line or value is refused with its line number",
        arguments: [
            ("products = demo", 1), ("# x\nProduct = demo", 2), ("product", 1), ("product demo", 1), ("= demo", 1),
            ("product =", 1), ("product = demo,", 1), ("product = demo,,other", 1), ("product = two words", 1),
            ("product = \"demo\"", 1), ("product = demo # note", 1), ("product = demo, demo", 1), ("product = *", 1),
            ("\nproduct = demo\nproduct = other", 3), ("format = Bundle", 1), ("format = otaf", 1),
            ("format = bundle\r\n", 1), ("product = d\u{e9}mo", 1), ("product\t= demo", 1),
            ("\u{feff}product = demo", 1),
            ("[scope]\nproduct = demo", 1), ("format = bundle\u{0}", 1),
        ])
    func refusesWhatItDoesNotKnow(text: String, line: Int) throws {
        let error = #expect(throws: KeyError(.badTrustScope, "")) { try scope(text) }
        #expect(error?.context.hasPrefix("k.pub.pem.scope:\(line): ") == true, "\(error?.context ?? "")")
        #expect(error?.context.utf8.allSatisfy { 0x20...0x7E ~= $0 } == true)
    }

    @Test(
        "a byte that is not printable ASCII is reported with its column, and the hint removes it",
        arguments: [
            ("product = demo\r\n", "byte 0x0D in column 15 is", "sed -i 's/\\r$//' k.pub.pem.scope"),
            ("\u{feff}product = demo", "byte 0xEF in column 1 is", "sed -i '1s/^\\xEF\\xBB\\xBF//' k.pub.pem.scope"),
            ("product\t= demo", "byte 0x09 in column 8 is", "replace the tab with a space"),
            ("product = d\u{e9}mo", "byte 0xC3 in column 12 is", "remove that byte"),
        ])
    func namesTheByte(text: String, place: String, hint: String) {
        let error = #expect(throws: KeyError(.badTrustScope, "")) { try scope(text) }
        #expect(
            error?.context.contains(place) == true && error?.hint?.contains(hint) == true, "\(error.debugDescription)")
    }

    @Test(
        "a scope without a limit, or that no file can satisfy, is refused",
        arguments: [
            "", "\n\n", "# product = demo", "product = demo\nformat = mcuboot",
            "format = bundle, mcuboot\nproduct = demo",
        ])
    func refusesAnEmptyOrImpossibleScope(text: String) throws {
        let error = #expect(throws: KeyError(.badTrustScope, "")) { try scope(text) }
        #expect(error?.context.hasPrefix("k.pub.pem.scope: ") == true)
    }
}
