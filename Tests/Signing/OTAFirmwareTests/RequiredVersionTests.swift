import OTAFirmware
import Testing

@Suite("Required versions") struct RequiredVersionTests {
    @Test("a required version is compared with the three numbers of the running version")
    func numbersAreCompared() throws {
        let required = RequiredVersion(major: 1, minor: 4, patch: 2)
        for (text, satisfied) in [
            ("1.4.2", true), ("1.4.2-rc.1", true), ("1.4.1", false), ("1.4.10", true), ("1.10.0", true),
            ("2.0.0", true), ("0.99.99", false), ("1.3.9+5", false),
        ] {
            #expect(required.isSatisfied(by: try #require(SemanticVersion(text))) == satisfied, "\(text)")
        }
    }

    @Test("a required version is parsed from exactly three numbers")
    func text() {
        #expect(RequiredVersion("1.4.2") == RequiredVersion(major: 1, minor: 4, patch: 2))
        #expect(RequiredVersion("4294967295.0.0")?.description == "4294967295.0.0")
        for text in ["1.4", "1.4.2-rc.1", "1.4.2+7", "01.4.2", "4294967296.0.0"] {
            #expect(RequiredVersion(text) == nil)
        }
    }
}
