# Homebrew's formula of the program; release.py writes the words in @, for `make release URL=...`.
class Specdec < Formula
  desc "Lossless speculative decoding of large language models on ordinary CPUs"
  homepage "@url@"
  version "@version@"
  license "MIT"

  on_macos do
    depends_on arch: :arm64
    url "@url@/specdec-@version@-macosx_11_0_arm64.tar.gz"
    sha256 "@macosx_11_0_arm64@"
  end

  on_linux do
    on_intel do
      url "@url@/specdec-@version@-manylinux_2_28_x86_64.tar.gz"
      sha256 "@manylinux_2_28_x86_64@"
    end
    on_arm do
      url "@url@/specdec-@version@-manylinux_2_28_aarch64.tar.gz"
      sha256 "@manylinux_2_28_aarch64@"
    end
  end

  def install
    libexec.install Dir["*"] # the program finds its models through the link
    bin.install_symlink libexec/"specdec"
    bash_completion.install libexec/"share/bash-completion/completions/specdec"
    zsh_completion.install libexec/"share/zsh/site-functions/_specdec"
    fish_completion.install libexec/"share/fish/vendor_completions.d/specdec.fish"
    man1.install Dir[libexec/"share/man/man1/*.1"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/specdec --version")
    assert_match "import os", shell_output("#{bin}/specdec generate -p 'import os' -n 1 --display-prompt")
  end
end
