import OTAFirmware
import Testing

@Suite("Product names") struct ProductNameTests {
    @Test(
        "a valid product name is accepted",
        arguments: ["a", "acme-thermostat", "A.b_c-9", String(repeating: "x", count: 63)])
    func isTaken(text: String) {
        #expect(ProductName(text)?.text == text)
    }

    @Test(
        "an invalid product name is refused",
        arguments: ["", " ", "a b", "ä", "a/b", "a\u{301}", "a\0", "a+b", String(repeating: "x", count: 64)])
    func isRefused(text: String) {
        #expect(ProductName(text) == nil)
    }
}
