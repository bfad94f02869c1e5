import OTAFirmware
import OTATestSupport
import SystemPackage
import Testing

/// A vector of `ed25519-vectors.txt`.
struct Ed25519Vector: Sendable, CustomTestStringConvertible {
    let isValid, isValidForOpenSSL: Bool
    let publicKey, message, signature: [UInt8]
    let testDescription: String

    private init?(_ line: Substring) {
        let words = line.split(separator: " ", maxSplits: 5).map(String.init)
        guard words.count == 6, !line.hasPrefix("#") else { return nil }
        func hex(_ word: String) -> [UInt8] { word == "-" ? [] : Hex.decode(word) ?? [] }
        isValid = words[0] == "valid"
        isValidForOpenSSL = words[1] == "valid"
        (publicKey, message, signature) = (hex(words[2]), hex(words[3]), hex(words[4]))
        testDescription = words[5]
    }

    static let all: [Ed25519Vector] = {
        let path = Repository.root.appending("Tests/Device/COTAEd25519Tests/ed25519-vectors.txt")
        let text = (try? Repository.contents(of: path)) ?? []
        return String(decoding: text, as: UTF8.self).split(separator: "\n").compactMap(Ed25519Vector.init)
    }()
}
