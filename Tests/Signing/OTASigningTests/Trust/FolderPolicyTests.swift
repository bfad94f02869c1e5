import Glibc
import OTAFirmware
import OTASigning
import SystemPackage
import Testing

@Suite("The policy of a trust folder") struct FolderPolicyTests {
    private let folder: TemporaryFolder
    private let first, second: PublicKey

    init() throws {
        folder = try TemporaryFolder()
        first = try PublicKey(bytes: RFC8032.test1.publicKey)
        second = try PublicKey(bytes: RFC8032.test2.publicKey)
    }

    private func parse(_ text: String) throws(KeyError) -> FolderPolicy {
        try FolderPolicy(parsing: Array(text.utf8), of: "/trust/trust.policy")
    }

    @Test("signatures and downgrade are read, with comments and spaces")
    func readsTheConditions() throws {
        let both = try parse("# two people\n\n  signatures =  2\ndowngrade = refuse\n")
        #expect(both.requiredSignatures?.count == 2 && both.requiredSignatures?.file == "/trust/trust.policy")
        #expect(both.downgradeRefusal == "/trust/trust.policy")
        #expect(try parse("signatures = 4").downgradeRefusal == nil)
        #expect(try parse("downgrade = refuse").requiredSignatures == nil)
    }

    @Test(
        "a line that is not understood is refused with the file",
        arguments: [
            "", "# nothing\n", "signature = 2\n", "signatures\n", "signatures = \n", "signatures = 0\n",
            "signatures = 5\n",
            "signatures = 02\n", "signatures = two\n", "signatures = 2, 3\n", "signatures = 2\nsignatures = 2\n",
            "downgrade = allow\n", "downgrade = refuse\r\n", "\u{FEFF}signatures = 2\n",
            "signatures = 2\nexpires = 2027\n",
        ])
    func refusesOtherLines(text: String) {
        let error = #expect(throws: KeyError(.badTrustPolicy, "")) { try parse(text) }
        #expect(error?.context.hasPrefix("/trust/trust.policy") == true, "\(error?.context ?? "")")
    }

    @Test(
        "of several folders, the strictest condition applies, also that of the folder of a named key file or of a link's target"
    )
    func strictest() throws {
        let names = ["a", "b", "target"]
        for name in names { _ = try folder.makeFolder(name) }
        try folder.write("a/one.pub.pem", first.pem().bytes)
        try folder.write("a/trust.policy", "signatures = 2\n".utf8)
        try folder.write("b/two.pub.pem", second.pem().bytes)
        try folder.write("b/trust.policy", "signatures = 3\ndowngrade = refuse\n".utf8)
        let (a, b) = (folder / "a", folder / "b")
        for paths in [[a, b], [b, a], [a, b / "two.pub.pem"]] {
            let policy = try TrustStore(paths: paths, filesAreChosen: true).policy
            #expect(policy.requiredSignatures?.count == 3 && policy.requiredSignatures?.file == b / "trust.policy")
            #expect(policy.downgradeRefusal == b / "trust.policy")
        }
        #expect(try TrustStore(paths: [a]).policy.downgradeRefusal == nil)

        try folder.write("target/key", first.pem().bytes)
        try folder.write("target/trust.policy", "downgrade = refuse\n".utf8)
        #expect(symlink("../target/key", (folder / "a/three.pub.pem").string) == 0)
        let linked = try TrustStore(paths: [a]).policy
        #expect(linked.requiredSignatures?.count == 2 && linked.downgradeRefusal?.lastComponent == "trust.policy")
    }

    @Test("a policy that cannot be read, or that others can change, stops the command beside a good key")
    func unreadable() throws {
        let key = try folder.write("one.pub.pem", first.pem().bytes)
        let policy = folder / "trust.policy"
        func refusals() -> [KeyError.Code?] {
            [folder.path, key].map { path in #expect(throws: KeyError.self) { try TrustStore(paths: [path]) }?.code }
        }
        #expect(symlink("nowhere", policy.string) == 0)
        #expect(refusals() == [.noSuchFile, .noSuchFile])
        unlink(policy.string)
        _ = try folder.makeFolder("trust.policy")
        #expect(refusals() == [.notAFile, .notAFile])
        rmdir(policy.string)
        try folder.write("trust.policy", "signatures = 2\n".utf8, mode: FilePermissions(rawValue: 0o666))
        #expect(refusals() == [.trustPermissions, .trustPermissions])
    }
}

extension FilePath {
    fileprivate static func / (folder: FilePath, name: String) -> FilePath { folder.appending(name) }
}
