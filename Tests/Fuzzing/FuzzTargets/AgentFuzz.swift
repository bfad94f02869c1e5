import OTAFirmware
import OTASigners
import OTASigning

/// Decodes an answer of an SSH agent.
///
/// An accepted signature has exactly one encoding. Accepted keys have 32 bytes, and their comments cannot control a terminal.
enum AgentFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        if let signature = try? AgentMessage.signature(in: bytes) {
            let type = Array("ssh-ed25519".utf8)
            let encoded = [14, 0, 0, 0, 83, 0, 0, 0, 11] + type + [0, 0, 0, 64] + signature
            if bytes != encoded { return "an accepted signature has another encoding" }
        }
        guard let keys = try? AgentMessage.keys(in: bytes) else { return nil }
        if keys.count > 2048 { return "\(keys.count) keys" }
        if keys.contains(where: { $0.publicKey.bytes.count != 32 }) { return "a key that does not have 32 bytes" }
        return keys.allSatisfy { $0.comment.isPrintable } ? nil : "a comment with unprintable characters"
    }
}
