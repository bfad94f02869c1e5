import Glibc
import OTAFirmware
import OTASigning
import SystemPackage
import Testing

@Suite struct TrustStoreTests {
    private let folder: TemporaryFolder
    private let first, second: PublicKey

    init() throws {
        folder = try TemporaryFolder()
        first = try PublicKey(bytes: RFC8032.test1.publicKey)
        second = try PublicKey(bytes: RFC8032.test2.publicKey)
    }

    @Test func loadsFilesAndFolders() throws {
        let trust = try folder.makeFolder("trust")
        try folder.write("trust/one.pub.pem", first.pem().bytes)
        try folder.write("trust/README", "not a key".utf8)
        try folder.write("trust/two.pem", "not counted".utf8)
        let file = try folder.write("any name will do", second.pem().bytes)
        let store = try TrustStore(paths: [trust, file])
        #expect(store.keys == [first, second].sorted { $0.id < $1.id })
        #expect(store[first.id] == first)
        #expect(store[second.id] == second)
        #expect(store[try PublicKey(bytes: RFC8032.test3.publicKey).id] == nil)
    }

    @Test func theSameKeyTwiceIsFine() throws {
        let one = try folder.write("one.pub.pem", first.pem().bytes)
        try folder.write("two.pub.pem", first.pem().bytes)
        #expect(try TrustStore(paths: [one, folder.path]).keys == [first])
    }

    @Test func aLinkInAFolderIsFollowed() throws {
        let trust = try folder.makeFolder("trust")
        try folder.write("key", first.pem().bytes)
        #expect(symlink("../key", trust.appending("linked.pub.pem").string) == 0)
        #expect(try TrustStore(paths: [trust]).keys == [first])
    }

    @Test func noKeyAtAllIsAnError() throws {
        #expect(throws: KeyError(.noTrustedKey, "")) { try TrustStore(paths: []) }
        let error = #expect(throws: KeyError(.noTrustedKey, "")) { try TrustStore(paths: [folder.path]) }
        #expect(error?.context.contains(folder.path.string) == true)
    }

    @Test func aMissingPathIsAnError() throws {
        try folder.write("one.pub.pem", first.pem().bytes)
        let error = #expect(throws: KeyError(.noSuchFile, "")) {
            try TrustStore(paths: [folder.path, folder / "missing"])
        }
        #expect(error?.context.contains("missing") == true)
    }

    @Test func whatIsNoKeyIsAnErrorWithItsName() async throws {
        try folder.write("one.pub.pem", first.pem().bytes)
        let pair = try await OpenSSLCommand.run("genpkey", "-algorithm", "X25519")
        try folder.write("other.pub.pem", try await OpenSSLCommand.run("pkey", "-pubout", input: pair))
        let error = #expect(throws: KeyError(.wrongAlgorithm, "")) { try TrustStore(paths: [folder.path]) }
        #expect(error?.context.hasPrefix("\(folder.path)/other.pub.pem: ") == true)

        try folder.write("other.pub.pem", "nonsense".utf8)
        #expect(throws: KeyError(.notAKey, "")) { try TrustStore(paths: [folder.path]) }
        unlink((folder / "other.pub.pem").string)
        _ = try folder.makeFolder("other.pub.pem")
        #expect(throws: KeyError(.notAFile, "")) { try TrustStore(paths: [folder.path]) }
    }

    @Test func aFileOrFolderThatAnybodyMayWriteToIsRefused() throws {
        let trust = try folder.makeFolder("trust")
        let file = try folder.write("trust/one.pub.pem", first.pem().bytes, mode: FilePermissions(rawValue: 0o664))
        #expect(try TrustStore(paths: [trust]).keys == [first])

        try changeMode(file, FilePermissions(rawValue: 0o666))
        for path in [trust, file] {
            let error = #expect(throws: KeyError(.trustOpenToOthers, "")) { try TrustStore(paths: [path]) }
            #expect(error?.hint == "chmod o-w \(file)")
        }
        try changeMode(file, FilePermissions(rawValue: 0o644))
        for mode in [0o777, 0o1777, 0o702] as [CInterop.Mode] {
            try changeMode(trust, FilePermissions(rawValue: mode))
            let error = #expect(throws: KeyError(.trustOpenToOthers, "")) { try TrustStore(paths: [trust]) }
            #expect(error?.hint == "chmod o-w \(trust)")
        }
    }

    /// Two keys that differ and have one id. To find them took 2^32 hashes, minutes on one processor core: an id selects a
    /// key and proves nothing.
    @Test func twoDifferentKeysOfOneIDAreRefused() throws {
        let twins = try ["cf29b1f98c0952a6", "5070aeaf4ab33121"].map { end in
            try PublicKey(bytes: Array("two keys, one id: ed2551".utf8) + #require(Hex.decode(end)))
        }
        #expect(twins.map(\.id.description) == ["d09c87303cdff7ba", "d09c87303cdff7ba"])
        #expect(twins[0] != twins[1])
        #expect(throws: KeyError(.keyIDConflict, "")) { try TrustStore(twins) }
        #expect(throws: Never.self) { try TrustStore([twins[0], first, twins[0]]) }

        try folder.write("one.pub.pem", twins[0].pem().bytes)
        try folder.write("two.pub.pem", twins[1].pem().bytes)
        let error = #expect(throws: KeyError(.keyIDConflict, "")) { try TrustStore(paths: [folder.path]) }
        #expect(error?.context.hasPrefix("\(folder.path)/two.pub.pem: ") == true)
    }
}
