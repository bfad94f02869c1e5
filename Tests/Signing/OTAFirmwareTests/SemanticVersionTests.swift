import OTAFirmware
import Testing

@Suite("Semantic versions") struct SemanticVersionTests {
    /// The test lists of semver.org's regular expression (regex101.com/r/Ly7O1x/3).
    static let valid = """
        0.0.4
        1.2.3
        10.20.30
        1.1.2-prerelease+meta
        1.1.2+meta
        1.1.2+meta-valid
        1.0.0-alpha
        1.0.0-beta
        1.0.0-alpha.beta
        1.0.0-alpha.beta.1
        1.0.0-alpha.1
        1.0.0-alpha0.valid
        1.0.0-alpha.0valid
        1.0.0-alpha-a.b-c-somethinglong+build.1-aef.1-its-okay
        1.0.0-rc.1+build.1
        2.0.0-rc.1+build.123
        1.2.3-beta
        10.2.3-DEV-SNAPSHOT
        1.2.3-SNAPSHOT-123
        1.0.0
        2.0.0
        1.1.7
        2.0.0+build.1848
        2.0.1-alpha.1227
        1.0.0-alpha+beta
        1.2.3----RC-SNAPSHOT.12.9.1--.12+788
        1.2.3----R-S.12.9.1--.12+meta
        1.2.3----RC-SNAPSHOT.12.9.1--.12
        1.0.0+0.build.1-rc.10000aaa-kk-0.1
        1.0.0-0A.is.legal
        """.split(separator: "\n").map(String.init)

    static let invalid = """
        1
        1.2
        1.2.3-0123
        1.2.3-0123.0123
        1.1.2+.123
        +invalid
        -invalid
        -invalid+invalid
        -invalid.01
        alpha
        alpha.beta
        alpha.beta.1
        alpha.1
        alpha+beta
        alpha_beta
        alpha.
        alpha..
        beta
        1.0.0-alpha_beta
        -alpha.
        1.0.0-alpha..
        1.0.0-alpha..1
        1.0.0-alpha...1
        1.0.0-alpha....1
        1.0.0-alpha.....1
        1.0.0-alpha......1
        1.0.0-alpha.......1
        01.1.1
        1.01.1
        1.1.01
        1.2
        1.2.3.DEV
        1.2-SNAPSHOT
        1.2.31.2.3----RC-SNAPSHOT.12.09.1--..12+788
        1.2-RC-SNAPSHOT
        -1.0.3-gamma+b7718
        +justmeta
        9.8.7+meta+meta
        9.8.7-whatever+meta+meta
        99999999999999999999999.999999999999999999.99999999999999999----RC-SNAPSHOT.12.09.1--------------------------------..12
        """.split(separator: "\n").map(String.init)

    @Test("a valid version of the SemVer list is accepted", arguments: valid)
    func isTaken(text: String) throws {
        let version = try #require(SemanticVersion(text))
        #expect(version.text == text)
        #expect("\(version)" == text)
    }

    @Test("an invalid version of the SemVer list is refused", arguments: invalid)
    func isRefused(text: String) {
        #expect(SemanticVersion(text) == nil)
    }

    /// The list of semver.org has a valid version with a number of 24 digits. Here the limit is 2^32 − 1.
    @Test("a version number of 2^32 or more is refused")
    func numbersStopBelowTwoToTheThirtySecond() throws {
        let highest = try #require(SemanticVersion("4294967295.4294967295.4294967295"))
        #expect((highest.major, highest.minor, highest.patch) == (.max, .max, .max))
        for text in ["4294967296.0.0", "0.4294967296.0", "0.0.4294967296"] { #expect(SemanticVersion(text) == nil) }
    }

    @Test("a version of more than 63 bytes is refused")
    func lengthIsFiveToSixtyThreeBytes() {
        #expect(SemanticVersion("0.0.0-" + String(repeating: "a", count: 57)) != nil)
        #expect(SemanticVersion("0.0.0-" + String(repeating: "a", count: 58)) == nil)
    }

    @Test(
        "text with characters outside of SemVer is refused",
        arguments: [
            "", " 1.0.0", "1.0.0\n", "v1.0.0", "1.0.0-ä", "1.0.0+\u{301}", "١.٠.٠", "1.0.0-", "1.0.0+", "+1.0.0",
            "1.+0.0",
        ])
    func foreignTextIsRefused(text: String) {
        #expect(SemanticVersion(text) == nil)
    }

    /// The order is that of SemVer 2.0.0, item 11. It includes numbers that do not fit into a machine integer.
    @Test("versions are ordered by the SemVer rules")
    func precedence() throws {
        let ascending = try [
            "0.9.9", "1.0.0-0", "1.0.0-9", "1.0.0-10", "1.0.0-99999999999999999999998", "1.0.0-99999999999999999999999",
            "1.0.0--", "1.0.0-Alpha", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.1.0", "1.0.0-alpha.beta",
            "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0",
        ].map { try #require(SemanticVersion($0)) }
        for (index, version) in ascending.enumerated() {
            for (otherIndex, other) in ascending.enumerated() {
                #expect(version.takesPrecedence(over: other) == (index > otherIndex), "\(version) over \(other)")
            }
        }
    }

    @Test("build metadata makes versions different, but not newer")
    func buildMetadataTellsApartButDoesNotRank() throws {
        let first = try #require(SemanticVersion("1.0.0+1"))
        let second = try #require(SemanticVersion("1.0.0+2"))
        #expect(first != second)
        #expect(!first.takesPrecedence(over: second) && !second.takesPrecedence(over: first))
    }
}
